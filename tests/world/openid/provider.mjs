// The registry's `oidc-provider`, with one client and people whose groups a test changes. It says its port on stdout.
// Whoever is "here" is logged in without a page. PUT /test has {here, people: {SUB: {name, groups}}}.
import http from 'node:http';
import {Provider} from 'oidc-provider';

const [, , issuerPort, redirectUri, secret] = process.argv;
const issuer = `http://127.0.0.1:${issuerPort}`;
let world = {here: 'ada', people: {}};

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'accredit', client_secret: secret, redirect_uris: [redirectUri],
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
  }],
  scopes: ['openid', 'offline_access', 'groups'],
  claims: {openid: ['sub', 'preferred_username'], groups: ['groups']},
  conformIdTokenClaims: false,
  features: {devInteractions: {enabled: false}},
  pkce: {required: () => true},
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  interactions: {url: (_, interaction) => `/interaction/${interaction.uid}`},
  findAccount: async (_, sub) => world.people[sub] && ({
    accountId: sub,
    claims: async () => ({sub, preferred_username: world.people[sub].name, groups: world.people[sub].groups}),
  }),
  loadExistingGrant: async (ctx) => {
    const grant = new ctx.oidc.provider.Grant({clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId});
    grant.addOIDCScope('openid offline_access groups');
    await grant.save();
    return grant;
  },
});

const answer = provider.callback();
http.createServer(async (request, response) => {
  if (request.url === '/test') {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    world = JSON.parse(Buffer.concat(chunks).toString());
    response.writeHead(204).end();
  } else if (request.url.startsWith('/interaction/')) {
    const result = world.here ? {login: {accountId: world.here}} : {error: 'access_denied'};
    await provider.interactionFinished(request, response, result, {mergeWithLastSubmission: false});
  } else {
    answer(request, response);
  }
}).listen(Number(issuerPort), '127.0.0.1', () => console.log('ready'));
