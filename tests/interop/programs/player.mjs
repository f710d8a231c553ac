// Plays the steps of a plan with a client of the official TypeScript SDK, and prints what came of each: as player.py.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const STEP_MS = 60_000;
const HEARD_MS = 6_000;
const LATE_MS = 100;
const CANCEL_AFTER_MS = 1_000;
const RETRIES = 6;
const TRY_MS = 10_000;
const RETRY_MS = 500;

const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
const write = line => new Promise(written => process.stdout.write(JSON.stringify(line) + '\n', written));
export const { endpoint, steps } = JSON.parse(readFileSync(process.argv[2], 'utf8'));

let heard = {};
export const note = (kind, what) => (heard[kind] ??= []).push(what);

async function expected({ hears, patience }) {
    const wanted = Object.entries(hears);
    if (!wanted.length) return {};
    const deadline = Date.now() + (patience ? patience * 1000 : HEARD_MS);
    const complete = () => wanted.every(([kind, count]) => (heard[kind] ?? []).length >= count);
    while (!complete() && Date.now() < deadline) await pause(10);
    if (complete()) await pause(LATE_MS);
    return Object.fromEntries(wanted.map(([kind]) => [kind, heard[kind] ?? []]));
}

function formAnswer(schema) {
    const types = { boolean: true, integer: 7, number: 7.5, array: [] };
    const answers = {};
    for (const [name, member] of Object.entries(schema?.properties ?? {})) {
        if (!(schema.required ?? []).includes(name)) continue;
        const options = member.enum ?? (member.oneOf ?? []).map(each => each.const);
        answers[name] = options[0] ?? types[member.type] ?? member.default ?? 'Ada';
    }
    return answers;
}

export function elicited({ params }) {
    note('elicitation', { message: params.message, mode: params.mode });
    return { action: 'accept', content: params.requestedSchema ? formAnswer(params.requestedSchema) : undefined };
}

export function sampled({ params }) {
    note('sampling', params.messages);
    return { role: 'assistant', model: 'a-model', stopReason: 'endTurn', content: { type: 'text', text: 'Paris' } };
}

export function rooted() {
    note('roots', {});
    return { roots: [{ uri: endpoint.root, name: 'here' }] };
}

export const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } };

// What a client of either generation does for each step. `options` are those of a request.
export function actions(client) {
    const call = ({ tool, arguments: given }, signal) =>
        client.callTool({ name: tool, arguments: given }, ...callOptions(signal));
    const callOptions = signal => {
        const options = { signal, onprogress: progress => note('progress', progress), timeout: STEP_MS };
        return client.listenTool ? [options] : [undefined, options];
    };
    return {
        server: () => ({
            info: client.getServerVersion(),
            capabilities: client.getServerCapabilities(),
            instructions: client.getInstructions(),
        }),
        tools: async () => (await client.listTools()).tools,
        resources: async () => (await client.listResources()).resources,
        templates: async () => (await client.listResourceTemplates()).resourceTemplates,
        prompts: async () => (await client.listPrompts()).prompts,
        ping: () => client.ping(),
        call,
        read: ({ uri }) => client.readResource({ uri }),
        prompt: given => client.getPrompt({ name: given.prompt, arguments: given.arguments }),
        complete: ({ ref, name, value }) => client.complete({ ref, argument: { name, value } }),
        log_level: ({ level }) => client.setLoggingLevel(level),
        subscribe: ({ uri }) => client.subscribeResource({ uri }),
        unsubscribe: ({ uri }) => client.unsubscribeResource({ uri }),
        task: client.taskOf,
        async cancel(given) {
            const controller = new AbortController();
            const ended = call(given, controller.signal).then(() => false, () => true);
            await pause(CANCEL_AFTER_MS);
            controller.abort();
            return { ended: true, cancelled: await ended };
        },
        async restart({ what }) {
            await write({ restart: what });
            if ((await lines.next()).value !== 'done') throw new Error('not restarted');
            return {};
        },
        async recover(given) {
            for (let tried = 0; tried < RETRIES; tried++) {
                try {
                    const slow = pause(TRY_MS).then(() => Promise.reject(new Error('slow')));
                    const answer = await Promise.race([call(given), slow]);
                    if (!answer.isError) return { recovered: true };
                } catch {} // which error, is the client's affair
                await pause(RETRY_MS);
            }
            return { recovered: false };
        },
    };
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const told = error =>
    error?.code !== undefined && typeof error.code === 'number'
        ? { code: error.code, message: error.message, data: error.data ?? null }
        : { type: error?.constructor?.name, message: String(error?.message ?? error) };

export async function play(client) {
    const able = actions(client);
    for (const step of steps) {
        heard = {};
        const line = { step: step.name };
        try {
            if (able[step.do] === undefined) line.cannot = true;
            else {
                line.result = (await able[step.do](step.with)) ?? null;
                line.heard = await expected(step);
            }
        } catch (error) {
            line.error = told(error);
        }
        await write(line);
    }
    await client.close();
    await write({ step: 'end', result: {} });
    process.exit(0);
}

export async function broken(error) {
    await write({ step: 'end', error: told(error) });
    process.exit(0);
}
