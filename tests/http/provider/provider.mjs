// An OpenID provider: node provider.mjs PORT REDIRECT_URI OPTIONS, where OPTIONS is JSON.
// Whoever comes signs in as "olga", at once. GET /control?name=value changes how it behaves, and returns its state.
//
// Options:
//   tokens: "jwt" for access tokens that are JWTs for an audience, or "opaque"
//   rotates: whether a refresh token can be used once; a second use ends the sign-in
//   seconds: how long access tokens are valid
//   resources: whether it knows any resource that is asked for, or none
import http from 'node:http'
import { generateKeyPairSync } from 'node:crypto'
import { createRequire } from 'node:module'

const [port, redirectUri, options] = process.argv.slice(2)
const { Provider, errors } = await import(createRequire(`${process.cwd()}/`).resolve('oidc-provider'))
const issuer = `http://127.0.0.1:${port}`
const given = { tokens: 'jwt', rotates: true, seconds: 600, resources: true, ...JSON.parse(options) }
const state = { ...given, isDown: false, exchanges: 0, keys: [makeKey('one')] }
const stored = new Map() // the provider before and after a change of its keys has the same

function makeKey(kid) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' }
}

class Adapter {
  constructor(name) { this.name = name }
  place(id) { return `${this.name}:${id}` }
  async upsert(id, payload) {
    stored.set(this.place(id), payload)
    if (payload.uid) stored.set(`uid:${this.name}:${payload.uid}`, id)
    if (payload.grantId) {
      const grant = `grant:${payload.grantId}`
      stored.set(grant, [...(stored.get(grant) ?? []), this.place(id)])
    }
  }
  async find(id) { return stored.get(this.place(id)) }
  async findByUid(uid) { return this.find(stored.get(`uid:${this.name}:${uid}`)) }
  async findByUserCode() {}
  async consume(id) { stored.get(this.place(id)).consumed = Math.floor(Date.now() / 1000) }
  async destroy(id) { stored.delete(this.place(id)) }
  async revokeByGrantId(grantId) {
    for (const place of stored.get(`grant:${grantId}`) ?? []) stored.delete(place)
  }
}

function makeProvider() {
  return new Provider(issuer, {
    adapter: Adapter,
    jwks: { keys: state.keys },
    cookies: { keys: ['not a secret'] },
    clients: [{
      client_id: 'quilt',
      client_secret: 'zq-secret',
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    }],
    scopes: ['openid', 'offline_access', 'read'],
    async findAccount(_, id) { return { accountId: id, async claims() { return { sub: id } } } },
    ttl: { AccessToken: () => state.seconds, RefreshToken: 86_400, IdToken: 600, Grant: 86_400, Session: 86_400, Interaction: 600 },
    rotateRefreshToken: () => state.rotates,
    issueRefreshToken: async () => true,
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    features: {
      devInteractions: { enabled: false },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: state.tokens === 'jwt',
        defaultResource: async () => 'urn:quilt',
        useGrantedResource: async () => true,
        getResourceServerInfo: async (_, resource) => state.resources || resource === 'urn:quilt' ? ({
          scope: 'openid offline_access read',
          audience: 'quilt-mcp',
          accessTokenTTL: state.seconds,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }) : Promise.reject(new errors.InvalidTarget()),
      },
    },
  })
}

let provider = makeProvider()

async function interact(request, response) {
  const details = await provider.interactionDetails(request, response)
  if (details.prompt.name === 'login') {
    return provider.interactionFinished(request, response, { login: { accountId: 'olga' } })
  }
  const grant = new provider.Grant({ accountId: details.session.accountId, clientId: details.params.client_id })
  grant.addOIDCScope('openid offline_access read')
  const resources = [details.params.resource ?? []].flat()
  for (const one of ['urn:quilt', ...resources]) grant.addResourceScope(one, 'openid offline_access read')
  const consent = { grantId: await grant.save() }
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true })
}

function control(found, response) {
  if (found.has('isDown')) state.isDown = found.get('isDown') === 'true'
  if (found.has('seconds')) state.seconds = Number(found.get('seconds'))
  if (found.has('newKey')) {
    state.keys = [makeKey(found.get('newKey')), ...(found.get('keeps') === 'true' ? state.keys : [])]
    provider = makeProvider()
  }
  response.setHeader('Content-Type', 'application/json')
  response.end(JSON.stringify({ exchanges: state.exchanges, keys: state.keys.map((key) => key.kid) }))
}

http.createServer(async (request, response) => {
  const url = new URL(request.url, issuer)
  if (url.pathname === '/control') return control(url.searchParams, response)
  if (state.isDown) { response.statusCode = 503; return response.end() }
  if (url.pathname === '/token') state.exchanges += 1
  if (url.pathname.startsWith('/interaction/')) return interact(request, response)
  return provider.callback()(request, response)
}).listen(Number(port), '127.0.0.1', () => console.log('listening'))
