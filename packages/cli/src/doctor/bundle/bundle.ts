// SPDX-License-Identifier: Apache-2.0
// Archive for a bug report: objects, logs, journals, rules, versions and the doctor's findings.
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { EVENTS, names, NODES, PODS } from "@patchbay/api";
import { isJsonObject, parseJson } from "@patchbay/api/json";
import type { KubeEvent, KubeObject, Pod } from "@patchbay/api/kubernetes";
import { isAppError, messageOf } from "@patchbay/base";
import type { Files, ListOptions, ProcessRunner } from "@patchbay/core/interfaces";
import { ifacesOf } from "@patchbay/core/nics";
import type { KubeClient } from "@patchbay/kube";
import { createFiles, createProcessRunner, openGrowingFile } from "@patchbay/os";
import type { Context } from "../../command.ts";
import { printDoctorReports, printFindings } from "../../print/doctor-report.ts";
import { chooseKubeConfig, findTarget, type Session } from "../../session.ts";
import { collectFacts, findMachineDir } from "../collect.ts";
import { examine } from "../examine.ts";
import { judgeInstallation } from "../judge.ts";
import {
  BUNDLED_KINDS,
  redactObject,
  redactText,
  redactValue,
  type BundledKind,
} from "./redact.ts";

const MIB = 1024 * 1024;
/** Limits in bytes before compression: of the archive, of the objects of a kind, and of any other file. */
export const BUNDLE_LIMITS = { archive: 64 * MIB, objects: 4 * MIB, file: MIB } as const;
const LOG_LINES_MAX = 5_000;
const PODS_MAX = 200;
const NODES_MAX = 50;
const DIRECTORY_FILES_MAX = 500;
const LOG_TIMEOUT_MS = 30_000;
const COMMAND_TIMEOUT_MS = 10_000;
const COLLECTION_TIMEOUT_MS = 300_000;
const LATE = `the time limit of ${String(COLLECTION_TIMEOUT_MS / 60_000)} min was reached`;

/** Programs whose output describes the network of a machine or node, by the name of the file. */
export const NETWORK_COMMANDS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  "rules.txt": ["nft", "list", "ruleset"],
  "links.txt": ["ip", "-d", "address"],
  "routes.txt": ["ip", "route", "show", "table", "all"],
};

interface MachineFiles {
  readonly source: string;
  readonly target: string;
  readonly suffix: string;
  readonly isNested?: true;
}

/** Directories below a machine's data directory whose files are in its bundle. All other files stay out, for example keys and disks. */
export const MACHINE_FILES: readonly MachineFiles[] = [
  { source: "", target: "machine", suffix: "standalone.json" },
  { source: "run", target: "machine/processes", suffix: ".json" },
  { source: "logs", target: "machine/logs", suffix: ".log" },
  { source: "net-agent/journal", target: "machine/journal", suffix: "", isNested: true },
  { source: "cni/net.d", target: "machine/networks", suffix: "" },
];

function keepEnd(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= bytesMax) return text;
  const end = bytes.subarray(bytes.length - bytesMax).toString("utf8");
  return end.slice(end.indexOf("\n") + 1);
}

interface BundleLimits {
  readonly stop?: AbortSignal;
  /** Ends the collection. What is missing then is noted. */
  readonly deadline?: AbortSignal;
}

/** Files of a bundle. Every method that adds a file removes secrets from it. */
export class Bundle {
  readonly #limits: BundleLimits;
  readonly #files = new Map<string, string>();
  readonly #missing: string[] = [];
  #size = 0;

  constructor(limits: BundleLimits = {}) {
    this.#limits = limits;
  }

  get signal(): AbortSignal {
    const { stop, deadline } = this.#limits;
    return AbortSignal.any([stop, deadline].filter((signal) => signal !== undefined));
  }

  get isLate(): boolean {
    return this.#limits.deadline?.aborted === true;
  }

  get missing(): readonly string[] {
    return this.#missing.toSorted();
  }

  addMissing(name: string, reason: string): void {
    this.#missing.push(`${name}: ${redactText(reason)}`);
  }

  addText(name: string, text: string): void {
    const redacted = redactText(text);
    const end = keepEnd(redacted, BUNDLE_LIMITS.file);
    if (end.length < redacted.length) this.addMissing(name, "the beginning, because it is long");
    this.#add(name, end);
  }

  addJson(name: string, value: unknown): void {
    const text = `${JSON.stringify(redactValue(value), undefined, 2)}\n`;
    if (Buffer.byteLength(text) > BUNDLE_LIMITS.objects) this.addMissing(name, "it is too long");
    else this.#add(name, text);
  }

  addObjects(name: string, kind: BundledKind, objects: readonly KubeObject[]): void {
    if (objects.length === 0) return;
    const lines: string[] = [];
    let size = 0;
    for (const object of objects) {
      const text = JSON.stringify(redactObject(kind, object), undefined, 2);
      size += Buffer.byteLength(text) + 2;
      if (size > BUNDLE_LIMITS.objects) break;
      lines.push(text);
    }
    const omitted = objects.length - lines.length;
    if (omitted > 0)
      this.addMissing(
        name,
        `${String(omitted)} of ${String(objects.length)} objects, because they are long`,
      );
    this.#add(name, `[\n${lines.join(",\n")}\n]\n`);
  }

  /** Notes a failure, and what the deadline leaves out. @throws the reason of `stop` */
  async attempt(name: string, add: () => Promise<void>): Promise<void> {
    const { stop } = this.#limits;
    stop?.throwIfAborted();
    try {
      if (this.isLate) throw new Error(LATE);
      await add();
    } catch (error) {
      stop?.throwIfAborted();
      const isUnserved = isAppError(error, "KUBE_NOT_FOUND");
      const reason = isUnserved ? "the server has none" : messageOf(error);
      this.addMissing(name, this.isLate ? LATE : reason);
    }
  }

  #add(name: string, text: string): void {
    const size = Buffer.byteLength(text);
    if (this.#size + size > BUNDLE_LIMITS.archive) {
      this.addMissing(name, "the archive has reached its size limit");
      return;
    }
    this.#size += size;
    this.#files.set(name, text);
  }

  files(): readonly (readonly [name: string, text: string])[] {
    const sorted = [...this.#files].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const lines = sorted.map(([name, text]) => `${name}  ${String(Buffer.byteLength(text))} bytes`);
    const missing = this.missing.length === 0 ? ["nothing"] : this.missing;
    const contents = ["Files:", ...lines, "", "Missing:", ...missing, ""].join("\n");
    return [["contents.txt", contents], ...sorted];
  }
}

export async function packArchive(
  files: readonly (readonly [name: string, text: string])[],
): Promise<Buffer> {
  const { pack } = await import("tar-stream");
  const archive = pack();
  // oxlint-disable-next-line no-restricted-globals -- a constant time, reads no clock
  const mtime = new Date(0);
  for (const [name, text] of files)
    archive.entry({ name: `patchbay-bundle/${name}`, mode: 0o600, mtime }, Buffer.from(text));
  archive.finalize();
  const chunks: Uint8Array[] = [];
  for await (const chunk of archive as AsyncIterable<Uint8Array>) chunks.push(chunk);
  return promisify(gzip)(Buffer.concat(chunks));
}

function listOptionsOf({ selection }: BundledKind): ListOptions {
  switch (selection) {
    case "all":
      return {};
    case "labeled":
      return { labelSelector: `${names.PART_OF_LABEL}=${names.PRODUCT}` };
    case "services":
      return { namespace: names.SERVICES_NAMESPACE };
    case "namespace":
      return { fieldSelector: `metadata.name=${names.SERVICES_NAMESPACE}` };
  }
}

function nameOf({ type: { resource, group } }: BundledKind, folder = "objects"): string {
  return `${folder}/${group === "" ? resource : `${resource}.${group}`}.json`;
}

type ApiSession = Pick<Session, "client">;

async function addKinds(bundle: Bundle, { client }: ApiSession): Promise<void> {
  for (const kind of BUNDLED_KINDS) {
    const name = nameOf(kind);
    await bundle.attempt(name, async () => {
      const { items } = await client.store.list(kind.type, {
        ...listOptionsOf(kind),
        signal: bundle.signal,
      });
      bundle.addObjects(name, kind, items);
    });
  }
}

function isReady({ status }: Pod): boolean {
  return (
    status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true
  );
}

async function addLogs(
  bundle: Bundle,
  { client }: ApiSession,
  pod: Pod,
  containers: readonly string[],
): Promise<void> {
  const { namespace = "", name } = pod.metadata;
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  const statuses = [...initContainerStatuses, ...containerStatuses];
  for (const container of containers) {
    const restarts = statuses.find((each) => each.name === container)?.restartCount ?? 0;
    for (const previous of restarts > 0 ? [false, true] : [false]) {
      const file = `logs/${namespace}/${name}/${container}${previous ? ".previous" : ""}.log`;
      await bundle.attempt(file, async () => {
        const { text } = await client.requestRaw({
          method: "GET",
          path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/log`,
          query: {
            container,
            tailLines: String(LOG_LINES_MAX),
            limitBytes: String(BUNDLE_LIMITS.file),
            ...(previous && { previous: "true" }),
          },
          timeoutMs: LOG_TIMEOUT_MS,
          signal: bundle.signal,
        });
        bundle.addText(file, text);
      });
    }
  }
}

function describeOmitted({ isLate }: Bundle, count: number, what: string): string {
  return `those of ${String(count)} further ${what}${isLate ? `, because ${LATE}` : ""}`;
}

async function addServiceLogs(bundle: Bundle, session: ApiSession): Promise<void> {
  const selection = {
    namespace: names.SERVICES_NAMESPACE,
    labelSelector: `${names.PART_OF_LABEL}=${names.PRODUCT}`,
    signal: bundle.signal,
  };
  const { items } = await session.client.store.list(PODS, selection);
  const sorted = items.toSorted((a, b) => Number(isReady(a)) - Number(isReady(b)));
  let omitted = items.length;
  for (const pod of sorted.slice(0, PODS_MAX)) {
    if (bundle.isLate) break;
    omitted -= 1;
    const { initContainers = [], containers } = pod.spec;
    await addLogs(
      bundle,
      session,
      pod,
      [...initContainers, ...containers].map(({ name }) => name),
    );
  }
  if (omitted > 0) bundle.addMissing("logs", describeOmitted(bundle, omitted, "pods"));
}

const EXEC_PROTOCOL = "v4.channel.k8s.io";
/** First byte of each message. Source: Kubernetes remotecommand. */
const EXEC_CHANNELS = { output: 1, errors: 2, status: 3 } as const;

/** Runs a program in the pod's first container. @throws if it fails, takes too long, or the signal is aborted */
export async function runInPod(
  client: Pick<KubeClient, "openStream">,
  { metadata, spec }: Pod,
  argv: readonly string[],
  abort: AbortSignal,
): Promise<string> {
  const { namespace = "", name } = metadata;
  const query = new URLSearchParams({ stdout: "true", stderr: "true" });
  query.set("container", spec.containers[0]?.name ?? "");
  for (const word of argv) query.append("command", word);
  const stream = await client.openStream({
    path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/exec?${query.toString()}`,
    protocol: EXEC_PROTOCOL,
    signal: AbortSignal.any([abort, AbortSignal.timeout(COMMAND_TIMEOUT_MS)]),
  });
  const messages: Buffer[] = [];
  let size = 0;
  stream.on("data", (message: Buffer) => {
    size += message.length;
    messages.push(message);
    if (size > BUNDLE_LIMITS.objects) stream.destroy(new Error("its output is too long"));
  });
  await finished(stream, { writable: false });
  const read = (channel: number): string => {
    const parts = messages.filter(([first]) => first === channel);
    return Buffer.concat(parts.map((message) => message.subarray(1))).toString("utf8");
  };
  const status = parseJson(read(EXEC_CHANNELS.status));
  const { output, errors } = EXEC_CHANNELS;
  if (isJsonObject(status) && status["status"] === "Success") return read(output);
  const reason = isJsonObject(status) ? String(status["message"]) : "it did not end in time";
  throw new Error(`${reason} ${read(errors)}`.trim());
}

const PRINT_JOURNAL = `cd "$1" && for row in */*; do
  if [ -f "$row" ]; then printf 'row %s\n' "$row" && cat "$row" && echo; fi
done`;

function parseJournal(output: string): Readonly<Record<string, unknown>> {
  const rows = output.split(/^row /m).slice(1);
  const entries = rows.map((row): [string, unknown] => {
    const end = row.indexOf("\n");
    return [row.slice(0, end), parseJson(row.slice(end))];
  });
  return Object.fromEntries(entries);
}

function readFlag({ spec }: Pod, flag: string): string | undefined {
  const args = spec.containers.flatMap((container) => container.args ?? []);
  return args.find((arg) => arg.startsWith(`${flag}=`))?.slice(flag.length + 1);
}

async function addNodes(bundle: Bundle, { client }: ApiSession): Promise<void> {
  const labelSelector = "app.kubernetes.io/name=net-agent";
  const { signal } = bundle;
  const selection = { namespace: names.SERVICES_NAMESPACE, labelSelector, signal };
  const { items } = await client.store.list(PODS, selection);
  let omitted = items.length;
  for (const pod of items.slice(0, NODES_MAX)) {
    if (bundle.isLate) break;
    omitted -= 1;
    const folder = `nodes/${pod.spec.nodeName ?? pod.metadata.name}`;
    await bundle.attempt(`${folder}/journal.json`, async () => {
      const directory = `${readFlag(pod, "--state-dir") ?? ""}/journal`;
      const rows = await runInPod(
        client,
        pod,
        ["sh", "-c", PRINT_JOURNAL, "sh", directory],
        signal,
      );
      bundle.addJson(`${folder}/journal.json`, parseJournal(rows));
    });
    const enter = ["nsenter", "--target", readFlag(pod, "--host-process") ?? "1", "--net"];
    for (const [name, argv] of Object.entries(NETWORK_COMMANDS)) {
      await bundle.attempt(`${folder}/${name}`, async () => {
        bundle.addText(
          `${folder}/${name}`,
          await runInPod(client, pod, [...enter, ...argv], signal),
        );
      });
    }
  }
  if (omitted > 0) bundle.addMissing("nodes", describeOmitted(bundle, omitted, "nodes"));
}

function findKind(kind: string): BundledKind {
  const found = BUNDLED_KINDS.find(({ type }) => type.kind === kind);
  if (found === undefined) throw new Error(`no bundled kind ${kind}`);
  return found;
}

function isAbout({ involvedObject }: KubeEvent, subjects: ReadonlySet<string>): boolean {
  return subjects.has(involvedObject.name ?? "");
}

async function addVm(
  bundle: Bundle,
  context: Pick<Context, "signal">,
  session: Session,
  name: string,
): Promise<void> {
  const { store } = session.client;
  const target = await findTarget(session, { name, isVmi: false }, context);
  const { namespace, vmi } = target;
  const folder = `vms/${namespace}/${name}`;
  const labelSelector = `${names.CREATED_BY_LABEL}=${vmi?.metadata.uid ?? ""}`;
  let pods: readonly Pod[] = [];
  await bundle.attempt(`${folder}/pods.json`, async () => {
    const { signal } = bundle;
    if (vmi !== undefined)
      pods = (await store.list(PODS, { namespace, labelSelector, signal })).items;
    bundle.addObjects(`${folder}/pods.json`, findKind(PODS.kind), pods);
  });
  await bundle.attempt(`${folder}/events.json`, async () => {
    const subjects = new Set([name, ...pods.map((pod) => pod.metadata.name)]);
    const { items } = await store.list(EVENTS, { namespace, signal: bundle.signal });
    const events = items.filter((event) => isAbout(event, subjects));
    bundle.addObjects(`${folder}/events.json`, findKind(EVENTS.kind), events);
  });
  for (const pod of pods) await addLogs(bundle, session, pod, [names.LAUNCHER_CONTAINER]);
  const spec = vmi?.spec ?? target.vm?.spec.template.spec;
  for (const { name: iface } of spec === undefined ? [] : ifacesOf(spec)) {
    const file = `${folder}/doctor-${iface}.txt`;
    await bundle.attempt(file, async () => {
      bundle.addText(
        file,
        printDoctorReports([await examine(context, session, { target, iface })]),
      );
    });
  }
}

async function addVersions(bundle: Bundle, context: Context, session: ApiSession): Promise<void> {
  const { client } = session;
  const { signal } = bundle;
  const version = await client.requestRaw({ method: "GET", path: "/version", signal });
  const server = parseJson(version.text);
  const nodes = await client.store
    .list(NODES, { signal })
    .then(
      ({ items }) =>
        items.map(({ metadata, status }) => ({ name: metadata.name, ...status?.nodeInfo })),
      messageOf,
    );
  bundle.addJson("versions.json", { patchbay: context.version, server, nodes });
}

async function addFindings(bundle: Bundle, context: Context, session: Session): Promise<void> {
  const findings = judgeInstallation(await collectFacts(context, session));
  bundle.addText("doctor.txt", printFindings(findings));
  bundle.addJson("doctor.json", findings);
}

async function readEnd(path: string): Promise<string> {
  const file = await openGrowingFile(path);
  if (file === undefined) return "";
  try {
    const size = await file.readSize();
    const start = Math.max(0, size - BUNDLE_LIMITS.file);
    const text = (await file.read(start, BUNDLE_LIMITS.file)).toString("utf8");
    // The first line can begin within a secret, behind its name.
    return start === 0 ? text : text.slice(text.indexOf("\n") + 1);
  } finally {
    await file.close();
  }
}

interface MachineDeps {
  readonly files: Pick<Files, "list">;
  readonly runner: Pick<ProcessRunner, "run">;
}

async function listFiles(
  files: MachineDeps["files"],
  directory: string,
  isNested: boolean,
): Promise<readonly string[]> {
  const listed = await files.list(directory);
  if (!isNested) return listed;
  const lists = listed.map(async (folder) =>
    (await files.list(join(directory, folder))).map((name) => `${folder}/${name}`),
  );
  return (await Promise.all(lists)).flat();
}

export async function addMachine(
  bundle: Bundle,
  dataDir: string,
  { files, runner }: MachineDeps,
): Promise<void> {
  for (const { source, target, suffix, isNested = false } of MACHINE_FILES) {
    const directory = join(dataDir, source);
    await bundle.attempt(target, async () => {
      const listed = await listFiles(files, directory, isNested);
      const found = listed.filter((name) => name.endsWith(suffix));
      for (const name of found.slice(0, DIRECTORY_FILES_MAX)) {
        await bundle.attempt(`${target}/${name}`, async () => {
          const text = await readEnd(join(directory, name));
          const parsed = parseJson(text);
          if (isJsonObject(parsed)) bundle.addJson(`${target}/${name}`, parsed);
          else bundle.addText(`${target}/${name}`, text);
        });
      }
    });
  }
  for (const [file, argv] of Object.entries(NETWORK_COMMANDS)) {
    const name = `machine/${file}`;
    await bundle.attempt(name, async () => {
      const { exitCode, stdout, stderr } = await runner.run({
        argv,
        timeoutMs: COMMAND_TIMEOUT_MS,
      });
      if (exitCode === 0) bundle.addText(name, stdout);
      else bundle.addMissing(name, stderr.trim());
    });
  }
}

async function findDataDir(context: Context, session: Session): Promise<string | undefined> {
  const files = createFiles();
  const kubeconfig = await chooseKubeConfig(context, files).catch(() => "");
  const { server } = session.config;
  return findMachineDir(files, { kubeconfig, server, dataDir: context.global.dataDir });
}

/** Collects the bundle. Notes what the user may not read, the API server's absence, and the deadline, instead of failing. */
export async function collectBundle(
  context: Context,
  session: Session,
  vm: string | undefined,
  deadline: AbortSignal = AbortSignal.timeout(COLLECTION_TIMEOUT_MS),
): Promise<Bundle> {
  const bundle = new Bundle({ stop: context.signal, deadline });
  const limited = { ...context, signal: bundle.signal };
  const dataDir = await findDataDir(context, session);
  if (dataDir !== undefined)
    await addMachine(bundle, dataDir, { files: createFiles(), runner: createProcessRunner() });
  const failure = await addVersions(bundle, context, session).then(
    () => undefined,
    (error: unknown) => error,
  );
  if (failure !== undefined) {
    bundle.addJson("versions.json", { patchbay: context.version });
    bundle.addMissing("versions of the server", messageOf(failure));
  }
  if (isAppError(failure, "KUBE_UNREACHABLE")) {
    bundle.addMissing("objects, logs and findings", "the API server does not respond");
  } else {
    await addKinds(bundle, session);
    await bundle.attempt("doctor.txt", () => addFindings(bundle, limited, session));
    if (vm !== undefined)
      await bundle.attempt(`vms/${vm}`, () => addVm(bundle, limited, session, vm));
    await bundle.attempt("nodes", () => addNodes(bundle, session));
    await bundle.attempt("logs", () => addServiceLogs(bundle, session));
  }
  context.signal.throwIfAborted();
  return bundle;
}
