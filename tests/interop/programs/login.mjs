// `login.mjs 1|2 URL`: the official TypeScript SDK, of either generation, logs in at a server and calls a tool of it.
// It prints the URL for the browser, then what came.
import { once } from 'node:events';
import { createServer } from 'node:http';

const [generation, url] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } =
    generation === '2'
        ? await import('@modelcontextprotocol/client')
        : {
              ...(await import('@modelcontextprotocol/sdk/client/index.js')),
              ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js'))
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
const connect = async () => {
    const client = new Client({ name: 'login', version: '1' }, options);
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
    return { client, transport, failed: await client.connect(transport).then(() => undefined, (error) => error) };
};

const first = await connect();
if (kept.verifier === undefined) throw first.failed ?? new Error('nobody had to log in');
const [request, response] = await once(callback, 'request');
response.end('You can close this page.');
callback.close();
const told = new URL(request.url, redirectUrl).searchParams;
if (told.get('state') !== 'a-state') throw new Error('another state');
await first.transport.finishAuth(generation === '2' ? told : told.get('code'));
const { client, failed } = await connect();
if (failed) throw failed;
const { tools } = await client.listTools();
const called = await client.callTool({ name: 'list_inbox', arguments: {} });
console.log(JSON.stringify({ tools: tools.map((each) => each.name), isError: called.isError ?? false }));
await client.close();
