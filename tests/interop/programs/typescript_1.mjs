// The official TypeScript SDK, first generation, as a client.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CallToolResultSchema,
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
    LoggingMessageNotificationSchema,
    ResourceUpdatedNotificationSchema
} from '@modelcontextprotocol/sdk/types.js';
import { broken, capabilities, elicited, endpoint, note, play, rooted, sampled } from './player.mjs';

const client = new Client({ name: 'typescript-1', version: '1' }, { capabilities });
client.setRequestHandler(ElicitRequestSchema, elicited);
client.setRequestHandler(CreateMessageRequestSchema, sampled);
client.setRequestHandler(ListRootsRequestSchema, rooted);
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => note('log', params));
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => note('updated', params.uri));
client.taskOf = async ({ tool, arguments: given }) => {
    const seen = [];
    const stream = client.experimental.tasks.callToolStream(
        { name: tool, arguments: given }, CallToolResultSchema, { task: { ttl: 60_000 }, timeout: 30_000 }
    );
    for await (const message of stream) {
        if (message.type === 'error') throw message.error;
        if (message.type === 'result') return { seen: [...new Set(seen)], result: message.result };
        seen.push(`${message.type} ${message.task.status}`);
    }
};
const transport = endpoint.url
    ? new StreamableHTTPClientTransport(new URL(endpoint.url))
    : new StdioClientTransport({ command: endpoint.command[0], args: endpoint.command.slice(1) });
client.connect(transport).then(() => play(client)).catch(broken);
