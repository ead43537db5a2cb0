// SPDX-License-Identifier: Apache-2.0
// Tenants, unauthenticated clients and component accounts that try to gain rights.
import { once } from "node:events";
import { Readable } from "node:stream";
import { connect } from "node:tls";
import { createClock } from "@patchbay/os";
import { createAuthority } from "@patchbay/pki";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeAgent, send } from "../../contract/apiserver/client.ts";
import { identity } from "../../contract/apiserver/harness.ts";
import { type Person, VirtApiMachine } from "../virt-api-machine.ts";

const PIECE_LENGTH = 64 * 1024;
const CORE = "/api/v1/namespaces";
const SECRETS = `${CORE}/kube-system/secrets`;
const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const CLUSTER_ADMIN = {
  apiGroup: "rbac.authorization.k8s.io",
  kind: "ClusterRole",
  name: "cluster-admin",
};

let machine: VirtApiMachine;
let tenant: Person;

beforeAll(async () => {
  machine = await VirtApiMachine.start();
  const { api } = machine;
  await api.post(`${RBAC}/namespaces/default/rolebindings`, {
    metadata: { name: "tenant" },
    roleRef: { ...CLUSTER_ADMIN, name: "edit" },
    subjects: [{ kind: "User", name: "tenant", apiGroup: CLUSTER_ADMIN.apiGroup }],
  });
  await api.post(SECRETS, { metadata: { name: "crown" }, stringData: { jewel: "j-e-w-e-l" } });
  tenant = await machine.person("tenant", ["tenants"]);
});
afterAll(() => machine[Symbol.asyncDispose]());

test("attack 51: rejects anonymous requests and self-signed certificates", async () => {
  const unprivileged = await machine.person();
  expect(await unprivileged.ask("GET", SECRETS)).toMatchObject({ code: 403 });
  const forger = await createAuthority("test", createClock());
  const forged = await identity(forger, "kubernetes-admin", ["system:masters"]);
  const { authority, server } = machine.api;
  const agent = makeAgent({ ca: authority.certPem, cert: forged.certPem, key: forged.keyPem });
  const answer = await send(agent, `${server.url}${SECRETS}`);
  agent.destroy();
  expect(answer.statusCode).toBe(401);
});

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString("base64url");
}

test("attack 52: rejects tokens that the server did not sign", async () => {
  const path = `${CORE}/default/serviceaccounts/default/token`;
  const { body } = await machine.api.post(path, { spec: {} });
  const token = String(body.status?.["token"]);
  const [head = "", claims = "", signature = ""] = token.split(".");
  const admin = encode({ sub: "system:serviceaccount:kube-system:admin" });
  const forged = [
    `${encode({ alg: "none" })}.${claims}.`,
    `${encode({ alg: "HS256" })}.${claims}.${signature}`,
    `${head}.${admin}.${signature}`,
    `${head}.${claims}.${signature.slice(0, -4)}`,
    `${head}.${claims}`,
  ];
  expect((await machine.api.ask("GET", SECRETS, { token })).code).toBe(403);
  for (const wrong of forged) {
    expect((await machine.api.ask("GET", SECRETS, { token: wrong })).code).toBe(401);
  }
});

test("attack 161: no token lives longer than a year", async () => {
  const path = `${CORE}/default/serviceaccounts/default/token`;
  const { code, body, warning } = await tenant.ask("POST", path, {
    spec: { expirationSeconds: 2 ** 32 },
  });
  expect(code).toBe(201);
  const [, claims = ""] = String(body.status?.["token"]).split(".");
  const { exp, iat } = JSON.parse(Buffer.from(claims, "base64url").toString()) as {
    readonly exp: number;
    readonly iat: number;
  };
  expect(exp - iat).toBeLessThanOrEqual(365 * 24 * 3600);
  expect(warning).toContain("shortened");
});

function* piecesOf(text: string): Generator<string> {
  for (let start = 0; start < text.length; start += PIECE_LENGTH)
    yield text.slice(start, start + PIECE_LENGTH);
}

/** Sends one raw request with the tenant's certificate; returns the response. */
async function raw(text: string): Promise<string> {
  const { authority, server } = machine.api;
  const { certPem, keyPem } = await identity(authority, "tenant", []);
  const options = { host: "127.0.0.1", port: server.port, ca: authority.certPem };
  const socket = connect({ ...options, cert: certPem, key: keyPem });
  let output = "";
  socket.on("data", (chunk: Buffer) => (output += chunk.toString())).on("error", () => undefined);
  // The server runs in this thread too: encrypting a long text at once would let its time limit of the handshake pass.
  Readable.from(piecesOf(text)).pipe(socket, { end: false });
  await once(socket, "close");
  expect(output).not.toContain(Buffer.from("j-e-w-e-l").toString("base64"));
  return output;
}

test.each([
  ["impersonate-user: kubernetes-admin"],
  ["impersonate-user: tenant\r\nimpersonate-group: system:masters"],
  ["impersonate-user: system:serviceaccount:patchbay:virt-controller"],
  ["Impersonate-Extra-scopes: x\r\nimpersonate-user: tenant"],
  ["impersonate-uid: 1\r\nimpersonate-user: tenant"],
  ["x-remote-user: kubernetes-admin"],
  ["x-remote-group: system:masters"],
])("attack 53: a tenant cannot impersonate by %j", async (headers) => {
  const output = await raw(
    `GET ${SECRETS} HTTP/1.1\r\nhost: a\r\n${headers}\r\nconnection: close\r\n\r\n`,
  );
  expect(output).toMatch(/^HTTP\/1\.1 403 /);
});

const RULES = [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }];
const SELF = [{ kind: "User", name: "tenant", apiGroup: CLUSTER_ADMIN.apiGroup }];
const URL_OF_HOST = "https://127.0.0.1:1/";
const WEBHOOK = {
  name: "a.b.c",
  clientConfig: { url: URL_OF_HOST },
  sideEffects: "None",
  admissionReviewVersions: ["v1"],
};

test.each([
  {
    number: 54,
    what: "a role with all rights",
    path: `${RBAC}/clusterroles`,
    body: { rules: RULES },
  },
  {
    number: 54,
    what: "a role that is aggregated into others",
    path: `${RBAC}/clusterroles`,
    body: {
      metadata: {
        name: "x",
        labels: { "rbac.authorization.k8s.io/aggregate-to-edit": "true" },
      },
      rules: RULES,
    },
  },
  {
    number: 54,
    what: "a binding to cluster-admin",
    path: `${RBAC}/namespaces/default/rolebindings`,
    body: { roleRef: CLUSTER_ADMIN, subjects: SELF },
  },
  {
    number: 57,
    what: "a webhook",
    path: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    body: { webhooks: [WEBHOOK] },
  },
  {
    number: 57,
    what: "an APIService",
    path: "/apis/apiregistration.k8s.io/v1/apiservices",
    body: { spec: { group: "g", version: "v1" } },
  },
  {
    number: 57,
    what: "a definition",
    path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    body: { spec: {} },
  },
])("attack $number: a tenant cannot create $what", async ({ path, body }) => {
  expect(await tenant.ask("POST", path, { metadata: { name: "x" }, ...body })).toMatchObject({
    code: 403,
  });
});

test.each([
  { number: 55, path: `${CORE}/default/../kube-system/secrets` },
  { number: 55, path: `${CORE}/default/%2e%2e/kube-system/secrets` },
  { number: 55, path: `${CORE}/default/configmaps/..%2f..%2fkube-system%2fsecrets` },
  { number: 55, path: `/api/v1//namespaces/kube-system/secrets` },
  { number: 57, path: `/api/v1/nodes/a/proxy/secrets` },
  { number: 57, path: `${CORE}/patchbay/services/https:virt-api:443/proxy/healthz` },
  { number: 58, path: SECRETS },
  { number: 58, path: `${SECRETS}/crown` },
  { number: 58, path: `${SECRETS}?watch=1` },
  { number: 58, path: "/api/v1/secrets?fieldSelector=metadata.namespace%3Ddefault" },
  { number: 58, path: `${SECRETS}?fieldSelector=metadata.name%3Dcrown` },
])("attack $number: a tenant gains nothing by %j", async ({ path }) => {
  const output = await raw(`GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`);
  expect(output).toMatch(/^HTTP\/1\.1 40[034] /);
});

test("attack 56: rejects an ambiguous request", async () => {
  const hidden = `GET ${SECRETS}/crown HTTP/1.1\r\nhost: a\r\n\r\n`;
  const head = `POST ${CORE}/default/configmaps HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n`;
  const output = await raw(
    `${head}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
  );
  expect(output).toMatch(/^HTTP\/1\.1 400 /);
  expect(output.match(/HTTP\/1\.1/g)).toHaveLength(1);
});

test("attack 59: does not decompress a compressed body", async () => {
  const headers = { "content-encoding": "gzip", "content-type": "application/json" };
  const body = "\u001f\u008b";
  const answer = await machine.api.ask("POST", `${CORE}/default/configmaps`, { body, headers });
  expect([400, 415]).toContain(answer.code);
});

test.each([
  { what: "100 MB", body: `{"a":"${"b".repeat(100_000_000)}"}` },
  { what: "10,000 levels", body: `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}` },
  { what: "a NUL in a name", body: '{"metadata":{"name":"a\\u0000b"}}' },
  { what: "a truncated text", body: '{"metadata":{"name":"a"' },
])("attack 60: rejects a body of $what", async ({ body }) => {
  const first = `POST ${CORE}/default/configmaps HTTP/1.1\r\nhost: a\r\nconnection: close`;
  const length = `content-length: ${String(Buffer.byteLength(body))}`;
  const output = await raw(
    `${first}\r\ncontent-type: application/json\r\n${length}\r\n\r\n${body}`,
  );
  expect(output).toMatch(/^HTTP\/1\.1 4(00|13|22) /);
});

const COMPONENTS = ["virt-api", "virt-controller", "virt-handler", "net-agent"];
const FORBIDDEN = [
  { resource: "secrets", verb: "get" },
  { resource: "secrets", verb: "list" },
  { resource: "serviceaccounts", subresource: "token", verb: "create" },
  { resource: "nodes", verb: "update" },
  { resource: "clusterroles", group: CLUSTER_ADMIN.apiGroup, verb: "create" },
  { resource: "rolebindings", group: CLUSTER_ADMIN.apiGroup, verb: "create" },
  { resource: "users", verb: "impersonate" },
];

test.each(COMPONENTS)("attack 70: %s neither reads secrets nor grants rights", async (name) => {
  const user = `system:serviceaccount:patchbay:${name}`;
  const reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
  for (const what of FORBIDDEN) {
    const resourceAttributes = { namespace: "kube-system", ...what };
    const { body } = await machine.api.post(reviews, { spec: { user, resourceAttributes } });
    expect(body.status).toMatchObject({ allowed: false });
  }
});

describe("attack 124: a tenant whose guest migrates", () => {
  const OWN = "/apis/kubevirt.io/v1/namespaces/default";
  const MIGRATIONS = `${OWN}/virtualmachineinstancemigrations`;
  const vmi = { kind: "VirtualMachineInstance", metadata: { name: "mover" } };

  beforeAll(async () => {
    const { api } = machine;
    const of = { apiVersion: "kubevirt.io/v1" };
    const path = `${OWN}/virtualmachineinstances`;
    await api.post(path, { ...of, ...vmi, spec: { domain: { devices: {} } } });
    const conditions = [{ type: "LiveMigratable", status: "True" }];
    await api.patch(`${path}/mover/status`, { status: { phase: "Running", conditions } });
  });

  function requestFor(person: Person, name: string, more: object): ReturnType<Person["ask"]> {
    const of = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstanceMigration" };
    const spec = { vmiName: "mover", ...more };
    return person.ask("POST", MIGRATIONS, { ...of, metadata: { name }, spec });
  }

  const refused = {
    code: 403,
    body: {
      message: expect.stringContaining("only virt-controller may set a migration") as string,
    },
  };

  test.each(["system-critical", "user-triggered", "system-maintenance"])(
    "cannot set the priority %s",
    async (priority) => {
      expect(await requestFor(tenant, "urgent", { priority })).toMatchObject(refused);
    },
  );

  test("shares this limit with virt-handler and virt-api", async () => {
    for (const name of ["virt-handler", "virt-api"]) {
      const account = await machine.person(`system:serviceaccount:patchbay:${name}`);
      const answer = await requestFor(account, "urgent", { priority: "system-critical" });
      expect(answer).toMatchObject({ code: 403 });
    }
  });

  test("can request a migration without a priority, but not raise the priority later", async () => {
    // virt-api learns the VMI by a watch.
    await expect.poll(() => requestFor(tenant, "plain", {})).toMatchObject({ code: 201 });
    const spec = { priority: "system-critical" };
    const answer = await tenant.ask("PATCH", `${MIGRATIONS}/plain`, { spec });
    const message = expect.stringContaining("spec is restricted") as string;
    expect(answer).toMatchObject({ code: 422, body: { message } });
    await machine.api.ask("DELETE", `${MIGRATIONS}/plain`);
  });

  test("waits behind virt-controller, which reports it", async () => {
    const controller = await machine.person("system:serviceaccount:patchbay:virt-controller");
    const answer = await requestFor(controller, "drain", { priority: "system-critical" });
    expect(answer).toMatchObject({ code: 201 });
  });
});
