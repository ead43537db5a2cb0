// SPDX-License-Identifier: Apache-2.0
// The request handler over in-memory HTTP, with two users, a definition and an aggregated API.
import { type Server, createServer } from "node:http";
import { RemoteDiscovery } from "../aggregation/remote-discovery.ts";
import { AccessLog } from "../auth/access.ts";
import { Authentication } from "../auth/authentication.ts";
import { serveUpgrades } from "../backend/tunnel.ts";
import { type AppDeps, makeApp } from "../http/app.ts";
import { type ReceivedAnswer, type SentRequest, requestInMemory } from "./memory-network.ts";
import { aPod, widgetDefinition } from "./objects.ts";
import { type TestServer, startTestServer } from "./test-server.ts";

const TOKENS = [
  { token: "t-admin", user: "admin", groups: ["system:masters"] },
  { token: "t-bob", user: "bob", groups: [] },
];

/** API `far.io/v1`, which another server serves. */
const AGGREGATED_API_SERVICE = {
  apiVersion: "apiregistration.k8s.io/v1",
  kind: "APIService",
  metadata: { name: "v1.far.io", uid: "uid-far" },
  spec: {
    group: "far.io",
    version: "v1",
    service: { namespace: "default", name: "far" },
    groupPriorityMinimum: 1000,
    versionPriority: 15,
  },
  status: { conditions: [{ type: "Available", status: "True" }] },
};

export type Headers = NonNullable<SentRequest["headers"]>;

export function json(text: string): Record<string, unknown> {
  return JSON.parse(text) as Record<string, unknown>;
}

export class TestApp {
  readonly server: TestServer;
  readonly http: Server;
  readonly remote: RemoteDiscovery;
  /** Users and paths of requests that were forwarded to the other server. */
  readonly forwarded: string[] = [];

  constructor(server: TestServer, change: Partial<AppDeps> = {}) {
    const { deps } = server;
    this.server = server;
    this.remote = new RemoteDiscovery(deps.store);
    const app = makeApp({
      ...deps,
      authentication: new Authentication(TOKENS, deps.accountTokens),
      accessLog: new AccessLog(deps.logger),
      remote: this.remote,
      aggregator: {
        serve: (request, response, user) => {
          if (request.url?.startsWith("/apis/far.io") !== true) return Promise.resolve(false);
          this.forwarded.push(`${user.name} ${request.url}`);
          response.end("from afar");
          return Promise.resolve(true);
        },
      },
      ...change,
    });
    this.http = createServer({ maxHeaderSize: 32 * 1024 }, app);
    serveUpgrades(this.http, app);
  }

  /** Sends a request as the administrator, unless the headers name another user. */
  readonly send = (path: string, sent: SentRequest = {}): Promise<ReceivedAnswer> => {
    const headers: Headers = { authorization: "Bearer t-admin", ...sent.headers };
    return requestInMemory(this.http, path, { ...sent, headers });
  };
}

/** Starts an app whose store has pod `p1` and the definition of widgets, and which has discovered the other server. */
export async function startTestApp(change: Partial<AppDeps> = {}): Promise<TestApp> {
  const server = await startTestServer();
  await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
  await server.put("apiregistration.k8s.io/apiservices", AGGREGATED_API_SERVICE);
  await server.put("pods", aPod("p1"));
  const app = new TestApp(server, change);
  app.remote.cache("v1.far.io", {
    resources: { resources: [{ name: "stars", kind: "Star", verbs: ["get"] }] },
    openApiUrl: "/openapi/v3/apis/far.io/v1?hash=F",
  });
  return app;
}
