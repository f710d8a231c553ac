// The official TypeScript SDK, first generation: streamable HTTP behind its Express application at /mcp, and HTTP+SSE of
// 2024-11-05 at /sse and /messages, whose transport reads bodies itself.
import { createMcpExpressApp } from '@modelcontextprotocol/sdk/server/express.js';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { run, serve } from './notes.mjs';

function newServer() {
    const server = new Server({ name: 'typescript-v1', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler(CallToolRequestSchema, run);
    return server;
}

const app = createMcpExpressApp();
app.post('/mcp', async (request, response) => {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
    response.on('close', () => transport.close());
    await newServer().connect(transport);
    await transport.handleRequest(request, response, request.body);
});

const sessions = new Map();

async function sse(request, response) {
    const url = new URL(request.url, 'http://here');
    if (request.method === 'GET' && url.pathname === '/sse') {
        const transport = new SSEServerTransport('/messages', response);
        sessions.set(transport.sessionId, transport);
        await newServer().connect(transport);
        return;
    }
    const session = sessions.get(url.searchParams.get('sessionId'));
    if (session) await session.handlePostMessage(request, response);
    else response.writeHead(404).end();
}

serve((request, response) => (request.url.startsWith('/mcp') ? app(request, response) : sse(request, response)));
