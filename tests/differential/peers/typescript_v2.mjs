// The official TypeScript SDK, second generation: streamable HTTP behind its Express application.
import { createMcpExpressApp } from '@modelcontextprotocol/express';
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { Server } from '@modelcontextprotocol/server';
import { run, serve } from './notes.mjs';

const app = createMcpExpressApp();
app.post('/mcp', async (request, response) => {
    const server = new Server({ name: 'typescript-v2', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/call', run);
    const transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
    response.on('close', () => transport.close());
    await server.connect(transport);
    await transport.handleRequest(request, response, request.body);
});

serve(app);
