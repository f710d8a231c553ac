// The official TypeScript SDK, first generation, with its own (experimental) tasks of 2025-11-25 and its own store of
// them, in sessions, at /mcp. A call of `act` with a task is done at once; of `stay`, never.
import { randomUUID } from 'node:crypto';
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { note, run, serve } from './notes.mjs';

const taskStore = new InMemoryTaskStore();
const sessions = new Map();

async function called(request, extra) {
    const result = await run(request);
    const task = await extra.taskStore.createTask({ ttl: request.params.task.ttl });
    if (request.params.name === 'act') await taskStore.storeTaskResult(task.taskId, 'completed', result);
    return { task };
}

async function opened() {
    const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
    const server = new Server({ name: 'tasks', version: '1' }, { capabilities: { tools: {}, tasks }, taskStore });
    server.setRequestHandler(CallToolRequestSchema, called);
    const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    await server.connect(transport);
    return transport;
}

serve(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const message = JSON.parse(Buffer.concat(chunks).toString());
    note({ method: message.method, id: message.params?.taskId });
    const transport = sessions.get(request.headers['mcp-session-id']) ?? (await opened());
    await transport.handleRequest(request, response, message);
});
