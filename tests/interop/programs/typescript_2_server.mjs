// `typescript_2_server.mjs stdio|http`: a server of the official TypeScript SDK, second generation, of both eras.
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { completable, createMcpHandler, McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const BIG = Buffer.alloc(2 ** 21, Buffer.from([...Array(256).keys()])).toString('base64');
const text = said => ({ content: [{ type: 'text', text: said }] });
const pause = seconds => new Promise(resolve => setTimeout(resolve, seconds * 1000));
const none = z.object({});

function build() {
    const server = new McpServer({ name: 'typescript-sdk-2', version: '1' }, { capabilities: { logging: {} } });
    const tool = (name, inputSchema, run) => server.registerTool(name, { description: `does ${name}`, inputSchema }, run);
    tool('add', z.object({ a: z.number(), b: z.number() }), ({ a, b }) => text(String(a + b)));
    tool('fail', none, () => { throw new Error('on purpose'); });
    tool('big_image', none, () => ({ content: [{ type: 'image', data: BIG, mimeType: 'image/png' }] }));
    tool('wait', z.object({ seconds: z.number() }), async ({ seconds }) => { await pause(seconds); return text('waited'); });
    tool('count', z.object({ to: z.number() }), async ({ to }, context) => {
        const progressToken = context.mcpReq._meta?.progressToken;
        for (let progress = 1; progress <= to; progress++) {
            const params = { progressToken, progress, total: to, message: `at ${progress}` };
            if (progressToken !== undefined) await context.mcpReq.notify({ method: 'notifications/progress', params });
            await pause(0.05);
        }
        return text('counted');
    });
    tool('say', none, async (_, context) => { await context.mcpReq.log('info', 'said'); return text('said'); });
    tool('ask_user', none, async (_, context) => {
        const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
        const answer = await context.mcpReq.elicitInput({ message: 'What is your name?', requestedSchema });
        return text(JSON.stringify(answer));
    });
    tool('ask_model', none, async (_, context) => {
        const messages = [{ role: 'user', content: { type: 'text', text: 'capital of France?' } }];
        return text(JSON.stringify(await context.mcpReq.requestSampling({ messages, maxTokens: 5 })));
    });
    const note = (uri, said) => ({ contents: [{ uri: String(uri), mimeType: 'text/plain', text: said }] });
    server.registerResource('fixed', 'note://fixed', {}, uri => note(uri, 'a fixed note'));
    const template = new ResourceTemplate('note://by-id/{id}', { list: undefined });
    server.registerResource('by-id', template, {}, (uri, { id }) => note(uri, `note ${id}`));
    const name = completable(z.string(), () => ['Ada', 'Alan']);
    server.registerPrompt('greet', { argsSchema: z.object({ name }) }, given => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Greet ${given.name}.` } }]
    }));
    return server;
}

if (process.argv[2] === 'stdio') serveStdio(build);
else createServer(toNodeHandler(createMcpHandler(build))).listen(Number(process.env.PORT), '127.0.0.1');
