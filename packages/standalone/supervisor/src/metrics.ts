// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { join } from "node:path";
import type { Files } from "@patchbay/core/interfaces";
import { createFiles, listReadOnlyMounts, readFileSize } from "@patchbay/os";
import { readFields, readNumber } from "./data-dir/json.ts";
import { buildHealthSocketPath, type Paths } from "./data-dir/paths.ts";

interface ServiceMetrics {
  readonly service: string;
  readonly text: string | undefined;
}

interface Family {
  readonly head: Map<string, string>;
  readonly samples: string[];
}

const COMMENT_PATTERN = /^# (HELP|TYPE) (\S+)/;
const SAMPLE_NAME_PATTERN = /^[a-zA-Z_:][a-zA-Z0-9_:]*/;

/** Adds a label with the service, so that equal samples of two services remain distinct. */
function addServiceLabel(line: string, service: string): string {
  const [name = ""] = SAMPLE_NAME_PATTERN.exec(line) ?? [];
  const remainder = line.slice(name.length);
  const label = `service="${service}"`;
  if (!remainder.startsWith("{")) return `${name}{${label}}${remainder}`;
  return `${name}{${label}${remainder.startsWith("{}") ? "" : ","}${remainder.slice(1)}`;
}

function addText(families: Map<string, Family>, text: string, service: string): void {
  let family: Family | undefined;
  for (const line of text.split("\n").filter((rawLine) => rawLine !== "")) {
    const [, keyword = "", name] = COMMENT_PATTERN.exec(line) ?? [];
    if (name !== undefined) {
      family = families.get(name) ?? { head: new Map(), samples: [] };
      families.set(name, family);
      if (!family.head.has(keyword)) family.head.set(keyword, line);
    } else if (SAMPLE_NAME_PATTERN.test(line)) {
      family?.samples.push(addServiceLabel(line, service));
    }
  }
}

function buildUpLines(serviceMetrics: readonly ServiceMetrics[]): readonly string[] {
  return [
    "# HELP patchbay_service_up 1 if the service answered this request, else 0.",
    "# TYPE patchbay_service_up gauge",
    ...serviceMetrics.map(
      ({ service, text }) =>
        `patchbay_service_up{service="${service}"} ${text === undefined ? "0" : "1"}`,
    ),
  ];
}

/** Source: text format 0.0.4, Prometheus documentation "Exposition formats". */
export function mergeMetrics(serviceMetrics: readonly ServiceMetrics[]): string {
  const families = new Map<string, Family>();
  for (const { service, text = "" } of serviceMetrics) addText(families, text, service);
  const lines = [...families.values()].flatMap(({ head, samples }) => [
    ...head.values(),
    ...samples,
  ]);
  return [...buildUpLines(serviceMetrics), ...lines, ""].join("\n");
}

const SERVICES = [
  "net-agent",
  "node-runtime",
  "service-net",
  "virt-api",
  "virt-controller",
  "virt-handler",
] as const;
/** Time limit of a service's response, long enough for virt-handler to read the counters of each guest. */
const TIMEOUT_MS = 5_000;

async function readSocket(socketPath: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const outgoing = request({ socketPath, path: "/metrics", agent: false, signal });
    const [response] = (await once(outgoing.end(), "response")) as [IncomingMessage];
    const text = (await response.setEncoding("utf8").toArray()).join("");
    return response.statusCode === 200 ? text : undefined;
  } catch {
    return undefined; // The metric patchbay_service_up of this service is then 0.
  }
}

function printGauge(name: string, help: string, samples: readonly string[]): readonly string[] {
  if (samples.length === 0) return [];
  const values = samples.map((sample) => `${name}${sample}`);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} gauge`, ...values];
}

async function readLogSizes(files: Files, directory: string): Promise<readonly string[]> {
  const sums = new Map<string, number>();
  for (const name of await files.list(directory)) {
    const [service = ""] = name.split(".log");
    const bytes = (await readFileSize(join(directory, name))) ?? 0;
    sums.set(service, (sums.get(service) ?? 0) + bytes);
  }
  return [...sums].map(([service, bytes]) => `{service="${service}"} ${String(bytes)}`);
}

export async function readMachineMetrics(
  files: Files,
  { dataDir, logs, claims, backupRecord }: Paths,
): Promise<string> {
  const { sizeBytes, freeBytes } = await files.readSpace(dataDir);
  const backupMs = readNumber(await readFields(files, backupRecord), "atMs");
  const readOnlyMounts = await listReadOnlyMounts(claims);
  const lines = [
    ...printGauge(
      "patchbay_machine_disk_size_bytes",
      "Size of the file system of the data directory.",
      [` ${String(sizeBytes)}`],
    ),
    ...printGauge(
      "patchbay_machine_disk_free_bytes",
      "Free space of the file system of the data directory.",
      [` ${String(freeBytes)}`],
    ),
    ...printGauge(
      "patchbay_machine_read_only_volumes",
      "Volumes of claims whose file system became read-only, for example on a full disk.",
      [` ${String(readOnlyMounts.length)}`],
    ),
    ...printGauge(
      "patchbay_machine_log_bytes",
      "Size of a service's logs.",
      await readLogSizes(files, logs),
    ),
    ...printGauge(
      "patchbay_machine_backup_timestamp_seconds",
      "Time of the last complete backup by patchbay backup.",
      backupMs === undefined ? [] : [` ${String(Math.round(backupMs / 1000))}`],
    ),
  ];
  return `${lines.join("\n")}\n`;
}

export async function readMetrics(paths: Paths): Promise<string> {
  const readService = async (service: string): Promise<ServiceMetrics> => {
    return { service, text: await readSocket(buildHealthSocketPath(paths, service)) };
  };
  const merged = mergeMetrics(await Promise.all(SERVICES.map(readService)));
  return `${merged}${await readMachineMetrics(createFiles(), paths)}`;
}
