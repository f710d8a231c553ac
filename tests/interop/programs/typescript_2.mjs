// The official TypeScript SDK, second generation, as a client of the newest revision that both sides know.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { broken, capabilities, elicited, endpoint, note, play, rooted, sampled } from './player.mjs';

const client = new Client(
    { name: 'typescript-2', version: '1' }, { capabilities, versionNegotiation: { mode: 'auto' } }
);
client.setRequestHandler('elicitation/create', elicited);
client.setRequestHandler('sampling/createMessage', sampled);
client.setRequestHandler('roots/list', rooted);
client.setNotificationHandler('notifications/message', ({ params }) => note('log', params));
client.setNotificationHandler('notifications/resources/updated', ({ params }) => note('updated', params.uri));
client.listenTool = true; // callTool(params, options)
const transport = endpoint.url
    ? new StreamableHTTPClientTransport(new URL(endpoint.url))
    : new StdioClientTransport({ command: endpoint.command[0], args: endpoint.command.slice(1) });
client.connect(transport).then(() => play(client)).catch(broken);
