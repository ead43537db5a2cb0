// SPDX-License-Identifier: Apache-2.0
// Bodies without their last byte, sent by many service accounts of one namespace.
import { once } from "node:events";
import type { TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { ApiServerProcess, GREETING_MS } from "../api-server-process.ts";

const ACCOUNTS = 40;
const CONNECTIONS_EACH = 10;
const LENGTH = 3_000_000;
const UNFINISHED = Buffer.alloc(LENGTH - 1, " ");
/** Much less than all bodies, which are 1,200 MB. The share of one tenant is 16 MiB, and each connection has buffers. */
const GROWTH_MAX = 250 * 1024 * 1024;
const DATA = { a: "x".repeat(900_000) };

let api: ApiServerProcess;
let sockets: TLSSocket[];
let answers: string[];
let attackers: readonly string[];
let otherTenant: string;

async function post(path: string, body: object): Promise<string> {
  const { code, text } = await api.ask("POST", path, JSON.stringify(body));
  if (code !== 201) throw new Error(text);
  return text;
}

/** Creates a namespace with service accounts that have the role `admin` there. Returns their tokens. */
async function makeTenant(namespace: string, count: number): Promise<readonly string[]> {
  await post("/api/v1/namespaces", { metadata: { name: namespace } });
  const rbac = "rbac.authorization.k8s.io";
  await post(`/apis/${rbac}/v1/namespaces/${namespace}/rolebindings`, {
    metadata: { name: "all" },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "admin" },
    subjects: [{ kind: "Group", apiGroup: rbac, name: `system:serviceaccounts:${namespace}` }],
  });
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
  const tokens: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const name = `a${String(index)}`;
    await post(accounts, { metadata: { name } });
    const issued = await post(`${accounts}/${name}/token`, { spec: {} });
    const { status } = JSON.parse(issued) as { readonly status: { readonly token: string } };
    tokens.push(status.token);
  }
  return tokens;
}

beforeAll(async () => {
  sockets = [];
  api = await ApiServerProcess.start();
  attackers = await makeTenant("t1", ACCOUNTS);
  [otherTenant = ""] = await makeTenant("t2", 1);
});

afterEach(() => {
  for (const socket of sockets) socket.destroy();
});

afterAll(() => api[Symbol.asyncDispose]());

interface Request {
  readonly namespace: string;
  readonly headers: readonly string[];
  readonly length: number;
}

async function begin({ namespace, headers, length }: Request): Promise<TLSSocket> {
  const socket = await api.connect(false);
  sockets.push(socket);
  const head = [
    `POST /api/v1/namespaces/${namespace}/configmaps HTTP/1.1`,
    "host: a",
    "content-type: application/json",
    `content-length: ${String(length)}`,
    ...headers,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  return socket;
}

async function create(namespace: string, token: string): Promise<string> {
  const body = JSON.stringify({ metadata: { generateName: "large-" }, data: DATA });
  const headers = [`authorization: Bearer ${token}`];
  const socket = await begin({ namespace, headers, length: body.length });
  socket.write(body);
  const [answer] = (await once(socket, "data")) as [Buffer];
  return answer.toString().slice(0, 12);
}

test.each([
  {
    who: "an account that impersonates 40 others",
    tokenOf: () => attackers[0],
    more: (account: number) => [`impersonate-user: system:serviceaccount:t1:a${String(account)}`],
  },
  { who: "40 accounts", tokenOf: (account: number) => attackers[account], more: () => [] },
])(
  "attack 153: unfinished bodies of $who share the memory of one tenant",
  async ({ tokenOf, more }) => {
    sockets = [];
    answers = [];
    const greetings: number[] = [];
    const before = await api.memory();
    for (let index = 0; index < ACCOUNTS * CONNECTIONS_EACH; index += 1) {
      const account = index % ACCOUNTS;
      const headers = [`authorization: Bearer ${tokenOf(account) ?? ""}`, ...more(account)];
      const socket = await begin({ namespace: "t1", headers, length: LENGTH });
      socket.on("data", (chunk: Buffer) => answers.push(chunk.toString()));
      socket.write(UNFINISHED);
      if (index % 50 === 0) greetings.push(await api.greet());
    }
    expect(Math.max(...greetings)).toBeLessThan(GREETING_MS);
    expect(await create("t2", otherTenant)).toBe("HTTP/1.1 201");
    const { most } = await api.memory();
    const growth = most - before.now;
    process.stdout.write(
      `the API server's memory grew by ${String(Math.round(growth / 1e6))} MB\n`,
    );
    expect(growth).toBeLessThan(GROWTH_MAX);
    // The server waits for the rest of each body: it has not rejected the requests for another reason.
    expect(answers).toEqual([]);
  },
);

test("attack 153: the tenant can write after its connections have ended", async () => {
  expect(await create("t1", attackers[0] ?? "")).toBe("HTTP/1.1 201");
});
