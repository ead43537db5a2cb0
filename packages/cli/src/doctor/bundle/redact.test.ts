// SPDX-License-Identifier: Apache-2.0
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { apiVersionOf } from "@patchbay/api";
import type { JsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { Bundle, packArchive } from "./bundle.ts";
import {
  BUNDLED_KINDS,
  REMOVED_MEMBERS,
  redactText,
  redactValue,
  type BundledKind,
} from "./redact.ts";

/** Secrets of a test, each different. */
class Secrets {
  readonly planted: string[] = [];

  next(): string {
    const secret = `planted${String(this.planted.length)}Zq`;
    this.planted.push(secret);
    return secret;
  }
}

const KEY_HEADER = ["-----BEGIN", "PRIVATE KEY-----"].join(" ");
const KEY_FOOTER = ["-----END", "PRIVATE KEY-----"].join(" ");

function plantPod(secrets: Secrets): JsonObject {
  const header = { name: "Authorization", value: secrets.next() };
  const container = {
    command: [secrets.next()],
    args: [secrets.next()],
    env: [
      { name: "PLAIN", value: secrets.next() },
      { name: "REFERENCE", valueFrom: { secretKeyRef: { name: "kept-reference", key: "k" } } },
    ],
    livenessProbe: { exec: { command: [secrets.next()] } },
    readinessProbe: { httpGet: { port: 80, httpHeaders: [header] } },
    lifecycle: { preStop: { exec: { command: [secrets.next()] } } },
  };
  const service = { name: "virt-handler", args: ["--port=1", `--api-token=${secrets.next()}`] };
  return {
    initContainers: [{ ...container, name: "init" }],
    ephemeralContainers: [{ ...container, name: "debugger" }],
    containers: [{ ...container, name: "hook-sidecar-0" }, service],
  };
}

function plantVm(secrets: Secrets): JsonObject {
  const cloudInit = (): JsonObject => ({
    userData: secrets.next(),
    userDataBase64: secrets.next(),
    networkData: secrets.next(),
    networkDataBase64: secrets.next(),
    secretRef: { name: "kept-reference" },
  });
  const url = `https://user:${secrets.next()}@host.example/disk.img?signature=${secrets.next()}`;
  return {
    dataVolumeTemplates: [
      { spec: { source: { http: { url, extraHeaders: [`X-Key: ${secrets.next()}`] } } } },
    ],
    template: {
      metadata: { annotations: { "hooks.kubevirt.io/hookSidecars": secrets.next() } },
      spec: {
        domain: { firmware: { kernelBoot: { kernelArgs: `root=/dev/vda pw=${secrets.next()}` } } },
        readinessProbe: { exec: { command: [secrets.next()] } },
        volumes: [
          { name: "a", cloudInitNoCloud: cloudInit() },
          { name: "b", cloudInitConfigDrive: cloudInit() },
          { name: "c", secret: { secretName: "kept-reference" } },
        ],
      },
    },
  };
}

/** Returns an object of any kind with secrets in each place where an object of some kind can have one. */
function plant({ type }: BundledKind, secrets: Secrets): KubeObject {
  const applied = JSON.stringify({ spec: { password: secrets.next() } });
  const network = {
    cniVersion: "1.0.0",
    type: "bridge",
    ipam: { type: "etcd", password: secrets.next(), apiKey: secrets.next() },
    plugins: [{ psk: secrets.next(), args: { cni: { token: secrets.next() } } }],
  };
  const text = [
    `login with Bearer ${secrets.next()} failed`,
    `password: ${secrets.next()}`,
    `${KEY_HEADER}\n${secrets.next()}\n${KEY_FOOTER}`,
    `proxy http://me:${secrets.next()}@proxy.example:3128/?key=${secrets.next()}`,
  ].join("; ");
  const spec = {
    ...plantPod(secrets),
    ...plantVm(secrets),
    config: JSON.stringify(network),
    adminPassword: secrets.next(),
    sharedSecret: [secrets.next()],
    kept: "kept-value",
  };
  const clientConfig = {
    caBundle: secrets.next(),
    url: `https://a:${secrets.next()}@hook.example/?t=${secrets.next()}`,
  };
  const object = {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    metadata: {
      namespace: "kept-namespace",
      name: "kept-name",
      annotations: {
        "example.com/note": secrets.next(),
        "kubectl.kubernetes.io/last-applied-configuration": applied,
        "patchbay.io/last-installed": applied,
        "k8s.v1.cni.cncf.io/networks": JSON.stringify([
          { name: "kept-network", "cni-args": { pin: secrets.next() } },
        ]),
      },
      managedFields: [{ fieldsV1: secrets.next() }],
    },
    data: { key: secrets.next() },
    stringData: { key: secrets.next() },
    binaryData: { key: secrets.next() },
    spec,
    status: { message: text, images: [secrets.next()], conditions: [{ message: text }] },
    message: text,
    webhooks: [{ name: "kept-webhook", clientConfig }],
    unknownMember: secrets.next(),
  };
  return object;
}

async function unpack(bundle: Bundle): Promise<string> {
  const archive = await promisify(gunzip)(await packArchive(bundle.files()));
  return archive.toString("latin1");
}

describe("an archive contains no planted secret", () => {
  test.each(BUNDLED_KINDS.map((kind) => [kind.type.kind, kind] as const))("%s", async (_, kind) => {
    const secrets = new Secrets();
    const object = plant(kind, secrets);
    const bundle = new Bundle();
    bundle.addObjects("objects/planted.json", kind, [object]);
    const text = await unpack(bundle);
    expect(secrets.planted.length).toBeGreaterThan(40);
    expect(secrets.planted.filter((secret) => text.includes(secret))).toEqual([]);
    expect(text).toContain("kept-name");
    expect(text).toContain("kept-network");
    expect(text.includes("kept-value")).toBe(kind.members.includes("spec"));
  });

  test("in JSON of a machine, for example a journal's row", async () => {
    const secrets = new Secrets();
    const config = { type: "bridge", password: secrets.next() };
    const bundle = new Bundle();
    bundle.addJson("machine/journal/row", {
      request: { config, runtimeConfig: { cniArgs: secrets.next() }, "cni-args": secrets.next() },
      log: `token=${secrets.next()}`,
    });
    const text = await unpack(bundle);
    expect(secrets.planted.filter((secret) => text.includes(secret))).toEqual([]);
  });
});

test("a network's configuration that is not JSON is removed", () => {
  const kind = BUNDLED_KINDS.find(({ type }) => type.kind === "NetworkAttachmentDefinition");
  if (kind === undefined) throw new Error("the kind is bundled");
  const object = {
    apiVersion: "v1",
    kind: "x",
    metadata: { name: "n" },
    spec: { config: "pin 1" },
  };
  const bundle = new Bundle();
  bundle.addObjects("a.json", kind, [object]);
  expect(bundle.files()[1]?.[1]).not.toContain("pin");
});

test("no bundled kind has secrets as its content", () => {
  const kinds = BUNDLED_KINDS.map(({ type }) => type.kind);
  for (const kind of ["Secret", "ConfigMap", "ServiceAccount", "ControllerRevision"])
    expect(kinds).not.toContain(kind);
});

test("each removed member is removed at any depth", () => {
  for (const member of Object.keys(REMOVED_MEMBERS)) {
    const redacted = redactValue({ a: [{ b: { [member]: { c: "planted" } } }] });
    expect(JSON.stringify(redacted)).not.toContain("planted");
  }
});

test.each<{ name: string; given: string; want: string }>([
  { name: "plain text", given: "plugged red into alpha", want: "plugged red into alpha" },
  {
    name: "references",
    given: "secretName: a, token expired, secret b not found",
    want: "secretName: a, token expired, secret b not found",
  },
  {
    name: "a header",
    given: "Authorization: Bearer abc.def-1",
    want: "Authorization: Bearer (removed)",
  },
  { name: "a flag", given: "--db-password=x y", want: "--db-password=(removed) y" },
  { name: "a line of JSON", given: '{"token":"a b","n":1}', want: '{"token":"(removed)","n":1}' },
  {
    name: "a line with JSON in a string",
    given: String.raw`{"body":"{\"password\":\"a b\"}"}`,
    want: String.raw`{"body":"{\"password\":\"(removed)\"}"}`,
  },
  {
    name: "a member of JSON",
    given: 'got {"token":"a b","n":1}',
    want: 'got {"token":(removed),"n":1}',
  },
  {
    name: "a member of JSON within a string",
    given: String.raw`got {"body":"{\"password\":\"a b\"}"}`,
    want: String.raw`got {"body":"{\"password\":(removed)}"}`,
  },
  {
    name: "a web token",
    given: "got eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2ln ok",
    want: "got (removed) ok",
  },
  {
    name: "an address",
    given: "GET https://me:pw@a.example:1/b?x=1 failed",
    want: "GET https://a.example:1/b?(removed) failed",
  },
  { name: "an address without secrets", given: "https://a.example/b", want: "https://a.example/b" },
  {
    name: "keys",
    given: `a ${KEY_HEADER}\nb\n${KEY_FOOTER} c ${KEY_HEADER}\nd`,
    want: "a (removed) c (removed)",
  },
  { name: "the end of a key", given: `b\n${KEY_FOOTER} c`, want: "(removed) c" },
])("redacts $name in a text", ({ given, want }) => {
  expect(redactText(given)).toBe(want);
});

const REDACTED_LINES: Readonly<Record<string, string>> = {
  "--password hunter2 --user x": "--password (removed) --user x",
  "-token 'a b' c": "-token (removed) c",
  "--key a b": "--key (removed) b",
  "--client-secret --user x": "--client-secret (removed) x",
  'argv=["--db-password","a b","-v"]': 'argv=["--db-password",(removed),"-v"]',
  "the flag --api-token is required": "the flag --api-token is required",
  "--token-file /a --secret-name b": "--token-file /a --secret-name b",
  [String.raw`password="a\"b c" d`]: "password=(removed) d",
  [String.raw`password="a\\" d`]: "password=(removed) d",
  [String.raw`m {"b":"{\"token\":\"a\\\"b c\",\"n\":1}"}`]: String.raw`m {"b":"{\"token\":(removed),\"n\":1}"}`,
  'password="a b': "password=(removed)",
  'password="a"b c': "password=(removed) c",
  "token=abc,def;g h": "token=(removed) h",
  "token: abc,def h": "token: (removed) h",
  "password: two words": "password: (removed)",
  "Password:two words": "Password:(removed)",
  "psk = two words": "psk = (removed)",
  "pass=a secret=b": "pass=(removed) secret=(removed)",
  'msg="password: two words" pod=a': 'msg="password: (removed)" pod=a',
  'msg="--token=a,b" pod=a': 'msg="--token=(removed)" pod=a',
  'msg="no password: " pod=a': 'msg="no password: " pod=a',
  [String.raw`m {"m":"secret: a\"b c","n":1}`]: String.raw`m {"m":"secret: (removed)","n":1}`,
  'm {"password":1234,"n":1}': 'm {"password":(removed),"n":1}',
  'm {"mountToken":false,"n":1}': 'm {"mountToken":false,"n":1}',
  'm {"tokens":["a]b","c d"],"n":1}': 'm {"tokens":(removed),"n":1}',
  'm {"credentials":{"a":{"b":"c d"}},"n":1}': 'm {"credentials":(removed),"n":1}',
  "secretKey: a b, auth=c": "secretKey: (removed) b, auth=(removed)",
  "Authorization: Digest a, b": "Authorization: (removed)",
  "Cookie: a=b; c=d": "Cookie: (removed)",
  '{"msg":"password: two words","pod":"a"}': '{"msg":"password: (removed)","pod":"a"}',
  '{"msg":"work failed","key":"default/a"}': '{"msg":"work failed","key":"default/a"}',
  "work failed key=default/a": "work failed key=default/a",
  "cannot read key: no such file": "cannot read key: no such file",
  "bypass=true, author: a, monkey=b": "bypass=true, author: a, monkey=b",
  "first password: a\nsecond line": "first password: (removed)\nsecond line",
};

test.each(Object.entries(REDACTED_LINES))("redacts the text %s", (given, want) => {
  expect(redactText(given)).toBe(want);
});

test("redacts members by name, and retains keys of labels and entries", () => {
  const key = "kept";
  const retained = {
    tolerations: [{ key, operator: "Exists" }],
    taints: [{ key, effect: "NoSchedule" }],
    affinity: { matchExpressions: [{ key, operator: "In", values: ["a"] }] },
    secret: { secretName: "a", items: [{ key, path: "b" }] },
    valueFrom: { secretKeyRef: { name: "a", key } },
    automountServiceAccountToken: false,
    topologyKey: "b",
    publicKey: "c",
  };
  const secrets = {
    key: "a",
    secretKey: "b",
    auth: "c",
    password: 1234,
    pins: [{ passcode: [1, 2] }],
    token: { value: "d" },
    args: ["--user", "x", "--password", "e", "f"],
    "tls.key": "g",
  };
  expect(redactValue({ ...retained, ...secrets })).toEqual({
    ...retained,
    key: "(removed)",
    secretKey: "(removed)",
    auth: "(removed)",
    password: "(removed)",
    pins: [{ passcode: "(removed)" }],
    token: { value: "(removed)" },
    args: ["--user", "x", "--password", "(removed)", "f"],
    "tls.key": "(removed)",
  });
});

test.each(["token=x ", 'token="', '"token: ', '--password "', "token=[", String.raw`token=[\\\\`])(
  "redacts a long line of %s",
  (part) => {
    const redacted = redactText(part.repeat(80_000));
    expect(redacted).toContain("(removed)");
    expect(redacted).not.toContain("x");
  },
);
