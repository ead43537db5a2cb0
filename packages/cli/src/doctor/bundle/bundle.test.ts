// SPDX-License-Identifier: Apache-2.0
// Contents and limits of a bundle, and what is noted instead of failing.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Duplex, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import {
  names,
  NODES,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  EVENTS,
} from "@patchbay/api";
import type { KubeObject, Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { createClock, createFiles } from "@patchbay/os";
import { extract } from "tar-stream";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Context } from "../../command.ts";
import type { Session } from "../../session.ts";
import {
  addMachine,
  Bundle,
  BUNDLE_LIMITS,
  collectBundle,
  packArchive,
  runInPod,
} from "./bundle.ts";
import { BUNDLED_KINDS } from "./redact.ts";

interface Entry {
  readonly name: string;
  readonly mode: number | undefined;
  readonly text: string;
}

async function unpack(archive: Buffer): Promise<readonly Entry[]> {
  const entries: Entry[] = [];
  const reader = extract();
  reader.on("entry", (header, stream, next) => {
    let text = "";
    stream.on("data", (chunk) => (text += String(chunk)));
    stream.on("end", () => {
      entries.push({ name: header.name, mode: header.mode, text });
      next();
    });
  });
  await pipeline(
    Readable.from([archive]),
    createGunzip(),
    reader as unknown as NodeJS.WritableStream,
  );
  return entries;
}

function textOf(bundle: Bundle, name: string): string {
  return new Map(bundle.files()).get(name) ?? "";
}

let directory = "";

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "patchbay-bundle-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true });
});

test("the archive has sorted private files, and the same bytes each time", async () => {
  const build = (order: readonly string[]): Bundle => {
    const bundle = new Bundle();
    for (const name of order) bundle.addText(name, `text of ${name}\n`);
    return bundle;
  };
  const archive = await packArchive(build(["b.txt", "a/c.txt"]).files());
  expect(await packArchive(build(["a/c.txt", "b.txt"]).files())).toEqual(archive);
  const entries = await unpack(archive);
  expect(entries.map(({ name }) => name)).toEqual(
    ["contents.txt", "a/c.txt", "b.txt"].map((name) => `patchbay-bundle/${name}`),
  );
  expect(new Set(entries.map(({ mode }) => mode))).toEqual(new Set([0o600]));
  expect(entries[0]?.text).toBe(
    "Files:\na/c.txt  16 bytes\nb.txt  14 bytes\n\nMissing:\nnothing\n",
  );
});

test("retains the end of a long text, and notes that", () => {
  const bundle = new Bundle();
  bundle.addText("a.log", `first\n${"x".repeat(BUNDLE_LIMITS.file)}\nlast\n`);
  expect(textOf(bundle, "a.log")).toBe("last\n");
  expect(bundle.missing).toEqual(["a.log: the beginning, because it is long"]);
});

test("limits the objects of a kind and the archive", () => {
  const bundle = new Bundle();
  const [kind] = BUNDLED_KINDS;
  if (kind === undefined) throw new Error("there is a kind");
  const object = (name: string): KubeObject & { readonly spec: object } => ({
    apiVersion: "v1",
    kind: "A",
    metadata: { name },
    spec: { text: "x".repeat(BUNDLE_LIMITS.objects / 3) },
  });
  bundle.addObjects("kind.json", kind, ["a", "b", "c", "d"].map(object));
  expect(JSON.parse(textOf(bundle, "kind.json"))).toHaveLength(2);
  expect(bundle.missing).toEqual(["kind.json: 2 of 4 objects, because they are long"]);
  const text = "y".repeat(BUNDLE_LIMITS.file);
  const count = BUNDLE_LIMITS.archive / BUNDLE_LIMITS.file;
  for (let index = 0; index < count; index += 1) bundle.addText(`${String(index)}.log`, text);
  expect(bundle.missing).toContain("63.log: the archive has reached its size limit");
  const size = bundle.files().reduce((sum, [, each]) => sum + each.length, 0);
  expect(size).toBeLessThan(BUNDLE_LIMITS.archive + 10_000);
});

async function put(path: string, text: string): Promise<void> {
  const file = join(directory, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}

test("a machine's bundle contains its logs, journal and rules, and neither keys nor disks", async () => {
  const files: Readonly<Record<string, string>> = {
    "standalone.json": '{"nodeName":"n1"}',
    "run/virt-api.json": '{"pid":1}',
    "run/cni/net-agent.sock": "",
    "logs/virt-api.log": "started password=planted\n",
    "net-agent/journal/uid-1/row": '{"network":"a/b","request":{"config":{"token":"planted"}}}',
    "cni/net.d/10-pods.conflist": '{"name":"pods"}',
    kubeconfig: "planted",
    "kubeconfigs/virt-api": "planted",
    "pki/ca.key": "planted",
    "pki/relay/ca.key": "planted",
    "pods/uid/volumes/secret": "planted",
    "pod-logs/vm/guest-console-log.log": "planted",
    "claims/disk": "planted",
    "apiserver/store.sqlite": "planted",
    "virt-handler/state": "planted",
  };
  for (const [path, text] of Object.entries(files)) await put(path, text);
  const bundle = new Bundle();
  const run = (command: { readonly argv: readonly string[] }) =>
    Promise.resolve(
      command.argv[0] === "nft"
        ? { exitCode: 0, stdout: "table ip services {}\n", stderr: "" }
        : { exitCode: 1, stdout: "", stderr: "not permitted\n" },
    );
  await addMachine(bundle, directory, { files: createFiles(), runner: { run } });
  expect(bundle.files().map(([name]) => name)).toEqual([
    "contents.txt",
    "machine/journal/uid-1/row",
    "machine/logs/virt-api.log",
    "machine/networks/10-pods.conflist",
    "machine/processes/virt-api.json",
    "machine/rules.txt",
    "machine/standalone.json",
  ]);
  expect(JSON.stringify(bundle.files())).not.toContain("planted");
  expect(bundle.missing).toEqual([
    "machine/links.txt: not permitted",
    "machine/routes.txt: not permitted",
  ]);
});

function contextOf(dataDir: string): Context {
  const output = { write: () => undefined };
  return {
    out: output,
    err: output,
    global: { output: "table", dataDir, kubeconfig: join(dataDir, "kubeconfig") },
    environment: {},
    version: "1.2.3",
    commandLine: { commands: [], groups: {}, flags: [] },
    signal: new AbortController().signal,
  };
}

/** A session whose API server has the store's objects, and responds to `GET` requests by path. */
function sessionOf(store: FakeStore, responses: Readonly<Record<string, string>>): Session {
  const requestRaw = ({ path, query }: { path: string; query?: Record<string, string> }) => {
    const key =
      query?.["container"] === undefined
        ? path
        : `${path} ${query["container"]} ${query["previous"] ?? ""}`.trim();
    const text = responses[key];
    if (text !== undefined) return Promise.resolve({ status: 200, text, warnings: [] });
    const details = {
      verb: "get",
      resource: path,
      object: "",
      status: 403,
      message: `${path} is forbidden`,
    };
    return Promise.reject(new AppError("KUBE_FORBIDDEN", details));
  };
  const config = { server: "https://a.example", readCredentials: () => Promise.resolve({}) };
  // The bundle uses only these parts of the client and of the configuration.
  return {
    client: { store, requestRaw },
    config,
    clock: createClock(),
    namespace: "blue",
  } as unknown as Session;
}

function podOf(
  namespace: string,
  name: string,
  containers: readonly string[],
  labels: object,
): KubeObject {
  const object = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name, labels },
    spec: { containers: containers.map((container) => ({ name: container, image: "i" })) },
    status: { containerStatuses: [{ name: containers[0], restartCount: 1 }] },
  };
  return object as unknown as KubeObject;
}

const SUCCESS = '\u0003{"status":"Success"}';

/** Streams of an exec by the program's first words. */
function streamsOf(messages: Readonly<Record<string, readonly string[]>>) {
  return ({ path }: { readonly path: string }): Promise<Duplex> => {
    const command = new URL(path, "https://a.example").searchParams.getAll("command").join(" ");
    const found = Object.entries(messages).find(([start]) => command.startsWith(start));
    if (found === undefined) return Promise.reject(new Error(`no stream for ${command}`));
    const read = (): void => undefined;
    const stream = new Duplex({ read });
    for (const message of found[1]) stream.push(Buffer.from(message));
    stream.push(null);
    return Promise.resolve(stream);
  };
}

test.each([
  {
    name: "several messages",
    messages: ["\u0001a ", "\u0002warning", "\u0001b", SUCCESS],
    want: "a b",
  },
  {
    name: "a failed program",
    messages: ["\u0002no nft", '\u0003{"status":"Failure","message":"exit code 1"}'],
    want: "exit code 1 no nft",
  },
  { name: "a stream without a status", messages: ["\u0001a"], want: "it did not end in time" },
])("the output of a program in a pod: $name", async ({ messages, want }) => {
  const pod = podOf("patchbay", "net-agent-1", ["net-agent"], {}) as Pod;
  const openStream = streamsOf({ nft: messages });
  const { signal } = new AbortController();
  const output = runInPod({ openStream }, pod, ["nft", "list"], signal).catch(
    (error: unknown) => (error as Error).message,
  );
  expect(await output).toBe(want);
});

test("collects rules and journals of nodes by net-agent's pods, without secrets", async () => {
  const store = createFakeStore();
  const agent = podOf("patchbay", "net-agent-1", ["net-agent"], {
    "app.kubernetes.io/name": "net-agent",
  }) as Pod;
  const [container] = agent.spec.containers;
  if (container === undefined) throw new Error("the pod has a container");
  const args = ["--state-dir=/state", "--host-process=7"];
  const spec = { ...agent.spec, nodeName: "n1", containers: [{ ...container, args }] };
  store.put(PODS, { ...agent, spec });
  const session = sessionOf(store, { "/version": "{}" });
  const row = '{"network":"a/b","request":{"config":{"token":"planted"}}}';
  const openStream = streamsOf({
    "sh -c": [`\u0001row u1/red\n${row}\n\nrow u2/blue\n{}\n\n`, SUCCESS],
    "nsenter --target 7 --net nft": ["\u0001table ip a {}\n", SUCCESS],
    "nsenter --target 7 --net ip": ['\u0003{"status":"Failure","message":"exit code 1"}'],
  });
  const client = { ...session.client, openStream };
  const bundle = await collectBundle(contextOf(directory), { ...session, client }, undefined);
  const rows = JSON.parse(textOf(bundle, "nodes/n1/journal.json")) as object;
  expect(Object.keys(rows)).toEqual(["u1/red", "u2/blue"]);
  expect(textOf(bundle, "nodes/n1/rules.txt")).toBe("table ip a {}\n");
  expect(bundle.missing).toEqual(
    expect.arrayContaining(["nodes/n1/links.txt: exit code 1", "nodes/n1/routes.txt: exit code 1"]),
  );
  expect(JSON.stringify(bundle.files())).not.toContain("planted");
});

test("collects logs and a VM's events, and notes what the user may not read", async () => {
  const store = createFakeStore();
  const put = (type: Parameters<FakeStore["put"]>[0], object: unknown): void => {
    store.put(type, object as KubeObject);
  };
  const own = { [names.PART_OF_LABEL]: names.PRODUCT };
  put(PODS, podOf(names.SERVICES_NAMESPACE, "virt-api-1", ["virt-api"], own));
  put(PODS, podOf("blue", "virt-launcher-alpha", ["compute", names.CONSOLE_LOG_CONTAINER], {}));
  put(NODES, { apiVersion: "v1", kind: "Node", metadata: { name: "n1" } });
  const metadata = { namespace: "blue", name: "alpha", uid: "u1" };
  const spec = { domain: { devices: {} } };
  put(VIRTUAL_MACHINES, {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata,
    spec: { template: { spec } },
  });
  put(VIRTUAL_MACHINE_INSTANCES, {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata,
    spec,
  });
  for (const [name, subject] of [
    ["one", "alpha"],
    ["two", "beta"],
  ] as const)
    put(EVENTS, {
      apiVersion: "v1",
      kind: "Event",
      metadata: { namespace: "blue", name },
      involvedObject: { name: subject },
      message: `about ${subject}`,
    });
  const services = `/api/v1/namespaces/${names.SERVICES_NAMESPACE}/pods/virt-api-1/log`;
  const launcher = "/api/v1/namespaces/blue/pods/virt-launcher-alpha/log";
  const session = sessionOf(store, {
    "/version": '{"gitVersion":"v1.30.0"}',
    [`${services} virt-api`]: "now password=planted\n",
    [`${services} virt-api true`]: "before\n",
    [`${launcher} compute`]: "libvirt\n",
    [`${launcher} ${names.CONSOLE_LOG_CONTAINER}`]: "planted console\n",
  });
  const bundle = await collectBundle(contextOf(directory), session, "alpha");
  const logs = bundle.files().filter(([name]) => name.startsWith("logs/"));
  expect(logs).toEqual([
    ["logs/blue/virt-launcher-alpha/compute.log", "libvirt\n"],
    [`logs/patchbay/virt-api-1/virt-api.log`, "now password=(removed)\n"],
    [`logs/patchbay/virt-api-1/virt-api.previous.log`, "before\n"],
  ]);
  expect(bundle.missing).toContainEqual(
    expect.stringMatching(/^logs\/blue\/virt-launcher-alpha\/compute\.previous\.log: /),
  );
  expect(textOf(bundle, "vms/blue/alpha/events.json")).toContain("about alpha");
  expect(textOf(bundle, "vms/blue/alpha/events.json")).not.toContain("about beta");
  expect(textOf(bundle, "doctor.txt")).toContain("API server: Kubernetes v1.30.0");
  expect(JSON.parse(textOf(bundle, "versions.json"))).toMatchObject({
    patchbay: "1.2.3",
    server: { gitVersion: "v1.30.0" },
    nodes: [{ name: "n1" }],
  });
  expect(JSON.stringify(bundle.files())).not.toContain("planted");
});

describe("the end of a collection", () => {
  const own = { [names.PART_OF_LABEL]: names.PRODUCT };

  /** A session with logs of two pods, whose reading calls a function. */
  function sessionWithLogs(onLog: () => void): Session {
    const store = createFakeStore();
    for (const name of ["one", "two"])
      store.put(PODS, podOf(names.SERVICES_NAMESPACE, name, ["a", "b"], own));
    const session = sessionOf(store, { "/version": "{}" });
    const requestRaw: Session["client"]["requestRaw"] = (request) => {
      if (!request.path.endsWith("/log")) return session.client.requestRaw(request);
      request.signal?.throwIfAborted();
      onLog();
      return Promise.resolve({ status: 200, text: "line\n", warnings: [] });
    };
    return { ...session, client: { ...session.client, requestRaw } };
  }

  const late = "the time limit of 5 min was reached";

  test("notes what the deadline leaves out", async () => {
    const deadline = new AbortController();
    const session = sessionWithLogs(() => {
      deadline.abort();
    });
    const context = contextOf(directory);
    const bundle = await collectBundle(context, session, undefined, deadline.signal);
    const logs = bundle.files().filter(([name]) => name.startsWith("logs/"));
    expect(logs.map(([name]) => name)).toEqual(["logs/patchbay/one/a.log"]);
    expect(bundle.missing.filter((line) => line.startsWith("logs"))).toEqual([
      `logs/patchbay/one/a.previous.log: ${late}`,
      `logs/patchbay/one/b.log: ${late}`,
      `logs: those of 1 further pods, because ${late}`,
    ]);
  });

  test("has no objects after the deadline", async () => {
    const session = sessionWithLogs(() => undefined);
    const bundle = await collectBundle(
      contextOf(directory),
      session,
      undefined,
      AbortSignal.abort(),
    );
    const collected = bundle.files().map(([name]) => name);
    expect(collected).toEqual(["contents.txt", "versions.json"]);
    expect(bundle.missing).toContain(`doctor.txt: ${late}`);
  });

  test("an interrupted command fails", async () => {
    const stop = new AbortController();
    const session = sessionWithLogs(() => {
      stop.abort(new Error("interrupted"));
    });
    const context = { ...contextOf(directory), signal: stop.signal };
    await expect(collectBundle(context, session, undefined)).rejects.toThrow("interrupted");
  });
});
