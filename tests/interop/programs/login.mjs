// `login.mjs 1|2 URL [held]`: the official TypeScript SDK, of either generation, logs in at a server and calls a tool of
// it. It prints the URL for the browser, then what came. With `held` it calls a tool for which a person has to be asked,
// and prints the page that it is asked to show.
import { once } from 'node:events';
import { createServer } from 'node:http';

const [generation, url, held] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport, ElicitRequestSchema } =
    generation === '2'
        ? await import('@modelcontextprotocol/client')
        : {
              ...(await import('@modelcontextprotocol/sdk/client/index.js')),
              ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
              ...(await import('@modelcontextprotocol/sdk/types.js'))
          };
const callback = createServer();
await once(callback.listen(0, '127.0.0.1'), 'listening');
const redirectUrl = `http://127.0.0.1:${callback.address().port}/callback`;
const kept = {};
const authProvider = {
    redirectUrl,
    clientMetadata: {
        client_name: `TypeScript SDK ${generation}`,
        redirect_uris: [redirectUrl],
        grant_types: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_method: 'none'
    },
    state: () => 'a-state',
    clientInformation: () => kept.client,
    saveClientInformation: (client) => void (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: (tokens) => void (kept.tokens = tokens),
    saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
    codeVerifier: () => kept.verifier,
    redirectToAuthorization: (page) => console.log(String(page))
};
const options = generation === '2' ? { versionNegotiation: { mode: 'auto' } } : {};
if (held) options.capabilities = { elicitation: { url: {} } };
const show = ({ params }) => {
    console.log(params.mode, params.url);
    return { action: 'accept' };
};
const connect = async () => {
    const client = new Client({ name: 'login', version: '1' }, options);
    if (held) client.setRequestHandler(ElicitRequestSchema ?? 'elicitation/create', show);
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
    return { client, transport, failed: await client.connect(transport).then(() => undefined, (error) => error) };
};

const first = await connect();
if (kept.verifier === undefined) throw first.failed ?? new Error('nobody had to log in');
const [request, response] = await once(callback, 'request');
response.end('You can close this page.');
callback.close();
const given = new URL(request.url, redirectUrl).searchParams;
if (given.get('state') !== 'a-state') throw new Error('another state');
await first.transport.finishAuth(generation === '2' ? given : given.get('code'));
const { client, failed } = await connect();
if (failed) throw failed;
const { tools } = await client.listTools();
const call = held ? { name: 'send_email', arguments: { to: 'a@example.com', subject: 'held' } } : { name: 'list_inbox', arguments: {} };
const told = [];
const called = await client.callTool(
    call,
    ...(generation === '2' ? [] : [undefined]),
    { onprogress: ({ message }) => told.push(message) }
);
console.log(JSON.stringify({ tools: tools.map((each) => each.name), told, isError: called.isError ?? false }));
await client.close();
