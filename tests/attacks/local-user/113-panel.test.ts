// SPDX-License-Identifier: Apache-2.0
// Unauthorized clients of the port of `patchbay ui`.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  request,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
} from "node:http";
import { connect } from "node:net";
import { createKubeClient } from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { startPanel, type Panel } from "../../../packages/cli/src/ui/server.ts";
import { EchoServer } from "./echo-server.ts";

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

let upstream: EchoServer;
let client: ReturnType<typeof createKubeClient>;
let panel: Panel;
let own = "";

beforeAll(async () => {
  upstream = await EchoServer.start();
  const config = {
    server: upstream.url,
    skipTlsVerify: false,
    readCredentials: () => Promise.resolve({ token: "the-users-own" }),
  };
  client = createKubeClient(config, { logger: createFakeLogger(), clock: createClock() });
  const page = { type: "text/html", render: (nonce: string) => `<p>${nonce}</p>` };
  const files = new Map([["/", page]]);
  const scope = { namespace: "default", onlyIn: "default" };
  const images = (): Promise<readonly string[]> => Promise.resolve([]);
  const deps = { client, files, scope, images, random: randomBytes, clock: createClock() };
  panel = await startPanel(deps, 0);
  own = `127.0.0.1:${String(panel.port)}`;
});
afterAll(async () => {
  await panel.close();
  await client.close();
  await upstream.stop();
});

async function ask(path: string, options: RequestOptions, body?: string): Promise<Answer> {
  const sent = request({ host: "127.0.0.1", port: panel.port, path, agent: false, ...options });
  sent.on("error", () => sent.destroy()); // the panel may close the connection, which ends the wait
  sent.end(options.method === undefined || options.method === "GET" ? undefined : body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  let text = "";
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode ?? 0, headers: response.headers, text };
}

/** As the panel's page requests. */
function fromPage(more: Readonly<Record<string, string>> = {}): Record<string, string> {
  return { host: own, origin: `http://${own}`, "sec-fetch-site": "same-origin", ...more };
}

function tokenOf(link: string): string {
  return link.split("#token=")[1] ?? "";
}

/** As a separate browser. */
function exchange(token: string, headers = fromPage()): Promise<Answer> {
  const browser = randomBytes(32).toString("base64url");
  return ask("/session", { method: "POST", headers }, JSON.stringify({ token, browser }));
}

async function newKey(): Promise<string> {
  const { text } = await exchange(tokenOf(panel.createLink()));
  return (JSON.parse(text) as { readonly key: string }).key;
}

const REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const VM = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/one";

describe("a page of another site in the same browser", () => {
  test.each([
    { name: "with a DNS name that resolves to this address", headers: { host: "evil.test" } },
    {
      name: "with a DNS name and port that resolve to the panel",
      headers: { host: "evil.test:8080" },
    },
    { name: "of another origin", headers: { origin: "http://evil.test" } },
    { name: "of another port of this machine", headers: { origin: "http://127.0.0.1:1" } },
    { name: "in a sandbox", headers: { origin: "null" } },
    { name: "of another site", headers: { "sec-fetch-site": "cross-site" } },
    { name: "of another server of this machine", headers: { "sec-fetch-site": "same-site" } },
  ])("attack 113: rejects a page $name, even with token and key", async ({ headers }) => {
    const key = await newKey();
    const token = tokenOf(panel.createLink());
    const before = upstream.asked.length;
    const otherClient = fromPage({ ...headers, "x-panel-key": key });
    expect(await ask("/", { headers: otherClient })).toMatchObject({ status: 403 });
    expect(await exchange(token, otherClient)).toMatchObject({ status: 403 });
    const review = await ask(REVIEW, { method: "POST", headers: otherClient }, "{}");
    expect(review).toMatchObject({ status: 403 });
    expect(review.headers["access-control-allow-origin"]).toBeUndefined();
    expect(upstream.asked.length).toBe(before);
    expect(await exchange(token)).toMatchObject({ status: 200 }); // it was not used up
  });

  test("attack 113: a request without an origin changes nothing", async () => {
    const key = await newKey();
    const headers = { host: own, "x-panel-key": key };
    expect(await ask(VM, { method: "PATCH", headers }, "[]")).toMatchObject({ status: 403 });
  });

  test("attack 113: a preflight from another origin gets no permission", async () => {
    const headers = { host: own, origin: "http://evil.test" };
    const answer = await ask(REVIEW, { method: "OPTIONS", headers });
    expect(answer.status).toBe(403);
    expect(answer.headers["access-control-allow-headers"]).toBeUndefined();
  });

  test.each([{ origin: "http://evil.test" }, { origin: undefined }])(
    "attack 113: opens no guest stream for origin $origin",
    async ({ origin }) => {
      const key = await newKey();
      const url = `ws://${own}/streams/default/one/console`;
      const protocols = ["stream.panel.patchbay.io", `key.${key}`];
      const socket = new WebSocket(url, protocols, origin === undefined ? {} : { origin });
      const [error] = (await once(socket, "error")) as [Error];
      expect(error.message).toContain("403");
    },
  );
});

describe("another user of the machine", () => {
  test.each([
    { name: "nothing", headers: {} },
    { name: "an empty key", headers: { "x-panel-key": "" } },
    { name: "a guessed key", headers: { "x-panel-key": randomBytes(32).toString("base64url") } },
  ])("attack 114: with $name gets only the page", async ({ headers }) => {
    const before = upstream.asked.length;
    const page = fromPage(headers);
    expect(await ask("/", { headers: page })).toMatchObject({ status: 200 });
    for (const path of ["/watch", VM, "/session", "/metrics"]) {
      expect(await ask(path, { headers: page })).toMatchObject({ status: 401 });
    }
    expect(await ask(REVIEW, { method: "POST", headers: page }, "{}")).toMatchObject({
      status: 401,
    });
    expect(upstream.asked.length).toBe(before);
  });

  test("attack 114: a link works for one browser, and a newer link ends an older one", async () => {
    const [first, second] = [panel.createLink(), panel.createLink()].map(tokenOf);
    expect(await exchange(first ?? "")).toMatchObject({ status: 401 });
    expect(await exchange(second ?? "")).toMatchObject({ status: 200 });
    expect(await exchange(second ?? "")).toMatchObject({ status: 401 });
  });

  test.each([{ body: "{" }, { body: "null" }, { body: '{"token":1}' }, { body: '{"token":""}' }])(
    "attack 114: $body opens nothing",
    async ({ body }) => {
      const answer = await ask("/session", { method: "POST", headers: fromPage() }, body);
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.text).not.toContain('"key"');
    },
  );

  test("attack 114: opens no stream with a guessed key", async () => {
    const url = `ws://${own}/streams/default/one/vnc`;
    const protocols = ["stream.panel.patchbay.io", "key.guess"];
    const socket = new WebSocket(url, protocols, { origin: `http://${own}` });
    const [error] = (await once(socket, "error")) as [Error];
    expect(error.message).toContain("403");
  });

  test("attack 114: does not store a request body of megabytes", async () => {
    const headers = fromPage({ "x-panel-key": await newKey() });
    const body = "x".repeat(8 * 1024 * 1024);
    const failed = ask(REVIEW, { method: "POST", headers }, body).then(
      ({ status }) => status,
      () => "cut",
    );
    expect([502, "cut"]).toContain(await failed);
    expect(await ask("/", { headers: fromPage() })).toMatchObject({ status: 200 });
  });

  test("attack 114: hundreds of silent connections do not block the page", async () => {
    const sockets = Array.from({ length: 150 }, () => connect(panel.port, "127.0.0.1"));
    for (const socket of sockets) socket.on("error", () => socket.destroy());
    // The oldest are closed to make room.
    await expect.poll(() => sockets.filter(({ closed }) => closed).length).toBe(50);
    expect(await ask("/", { headers: fromPage() })).toMatchObject({ status: 200 });
    for (const socket of sockets) socket.destroy();
    await Promise.all(sockets.flatMap((socket) => (socket.closed ? [] : [once(socket, "close")])));
  });
});

describe("a compromised page", () => {
  test.each([
    "/../package.json",
    "/..%2f..%2fpackage.json",
    "/%2e%2e/package.json",
    "//etc/passwd",
    "/panel.js/../../index.ts",
    "/etc/passwd",
    "/?x",
  ])("attack 115: %s is not a file of the panel", async (path) => {
    const headers = fromPage({ "x-panel-key": await newKey() });
    expect(await ask(path, { headers })).toMatchObject({ status: 404 });
  });

  test.each([
    { method: "GET", path: "/api/v1/namespaces/default/secrets" },
    { method: "GET", path: "/api/v1/namespaces/default/secrets/one" },
    { method: "GET", path: "/api/v1/namespaces/default/events/../secrets/one" },
    { method: "GET", path: "/api/v1/namespaces/default%2fsecrets%2fone/events" },
    { method: "GET", path: `${VM}/../../../../secrets` },
    { method: "GET", path: `${VM}?watch=true` },
    { method: "POST", path: "/api/v1/namespaces/default/pods" },
    { method: "POST", path: "/api/v1/namespaces/default/pods/one/exec" },
    { method: "POST", path: "/api/v1/namespaces/default/serviceaccounts/default/token" },
    { method: "POST", path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings" },
    { method: "PATCH", path: "/api/v1/namespaces/default/secrets/one" },
    { method: "DELETE", path: "/apis/kubevirt.io/v1/namespaces/default/virtualmachines" },
    { method: "DELETE", path: "/api/v1/namespaces/default/secrets/one" },
    { method: "DELETE", path: "/api/v1/namespaces/default/persistentvolumeclaims/one" },
    { method: "DELETE", path: "/api/v1/namespaces/default" },
    { method: "PUT", path: VM },
    { method: "PUT", path: `${VM}/status` },
    { method: "GET", path: "http://127.0.0.1:1/api/v1/namespaces/default/events" },
  ])("attack 115: does not forward $method $path", async ({ method, path }) => {
    const before = upstream.asked.length;
    const headers = fromPage({ "x-panel-key": await newKey() });
    expect(await ask(path, { method, headers }, "{}")).toMatchObject({ status: 404 });
    expect(upstream.asked.length).toBe(before);
  });

  test("attack 115: page headers do not reach the API server, and its credentials do not reach the page", async () => {
    const headers = fromPage({
      "x-panel-key": await newKey(),
      authorization: "Bearer other",
      "impersonate-user": "admin",
      cookie: "a=b",
    });
    const answer = await ask(VM, { headers });
    expect(answer.status).toBe(200);
    expect(answer.text).not.toContain("the-users-own");
    const sent = upstream.asked.at(-1)?.headers;
    expect(sent).toMatchObject({ authorization: "Bearer the-users-own" });
    for (const name of ["impersonate-user", "cookie", "x-panel-key", "origin"]) {
      expect(sent?.[name]).toBeUndefined();
    }
  });

  test("attack 115: only the panel's own files run, no framing is allowed, and nothing is cached", async () => {
    const [one, other] = [
      await ask("/", { headers: fromPage() }),
      await ask("/", { headers: fromPage() }),
    ];
    const policy = String(one.headers["content-security-policy"]);
    expect(policy).toContain("default-src 'none'; script-src 'self';");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toContain("unsafe");
    expect(one.headers).toMatchObject({
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    });
    expect(one.headers["set-cookie"]).toBeUndefined();
    expect(policy).toContain(one.text.slice(3, -4));
    expect(other.text).not.toBe(one.text);
  });
});
