// What a server notes down for the test: each POST that arrives, and each run of its tool as the tool saw it.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';

const file = process.argv[2];

export function note(seen) {
    appendFileSync(file, JSON.stringify(seen) + '\n');
}

export async function run({ params }) {
    note({ name: params.name, arguments: params.arguments ?? {} });
    return { content: [{ type: 'text', text: 'done' }] };
}

export function serve(handle) {
    const server = createServer((request, response) => {
        if (request.method !== 'GET') note({ arrived: request.method });
        handle(request, response);
    });
    server.listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port}`));
}
