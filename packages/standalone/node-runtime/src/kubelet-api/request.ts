// SPDX-License-Identifier: Apache-2.0
// Parses requests of the API server and finds the addressed containers. Source: server.go of the kubelet.
import type { LogQuery } from "./read-log.ts";
import { parseRecordTime } from "./log-format.ts";
import type { ContainerStatus, Pod } from "@patchbay/api/kubernetes";
import type { ContainerSummary } from "@patchbay/core/interfaces";

export interface ContainerName {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

interface StreamQuery {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

interface ExecQuery extends StreamQuery {
  readonly command: readonly string[];
}

export type KubeletRequest =
  | { readonly kind: "health" }
  | {
      readonly kind: "logs";
      readonly target: ContainerName;
      readonly previous: boolean;
      readonly query: LogQuery;
    }
  | { readonly kind: "exec"; readonly target: ContainerName; readonly query: ExecQuery }
  | { readonly kind: "attach"; readonly target: ContainerName; readonly query: StreamQuery };

export interface Refusal {
  readonly kind: "refused";
  readonly code: number;
  readonly message: string;
}

const NOT_FOUND_MESSAGE = "404 page not found";

function buildRefusal(code: number, message: string): Refusal {
  return { kind: "refused", code, message };
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined; // The percent-encoding is invalid.
  }
}

function parseFlag(query: URLSearchParams, name: string): boolean {
  return ["1", "true"].includes(query.get(name) ?? "");
}

/** Parses a query parameter. Returns undefined if it is missing, NaN if it is not an integer of at least `minimum`. */
function parseCount(query: URLSearchParams, name: string, minimum: number): number | undefined {
  const text = query.get(name);
  if (text === null || text === "") return undefined;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
  return value >= minimum ? value : NaN;
}

function parseSince(query: URLSearchParams, nowMs: number): number | undefined {
  const seconds = parseCount(query, "sinceSeconds", 1);
  if (seconds !== undefined) return nowMs - seconds * 1000;
  const time = query.get("sinceTime");
  return time === null || time === "" ? undefined : parseRecordTime(time);
}

function parseLogs(
  target: ContainerName,
  query: URLSearchParams,
  nowMs: number,
): KubeletRequest | Refusal {
  const tailLines = parseCount(query, "tailLines", 0);
  const limitBytes = parseCount(query, "limitBytes", 1);
  const sinceMs = parseSince(query, nowMs);
  if ([tailLines, limitBytes, sinceMs].some((value) => Number.isNaN(value))) {
    return buildRefusal(
      422,
      "tailLines, limitBytes, sinceSeconds or sinceTime has an invalid value",
    );
  }
  return {
    kind: "logs",
    target,
    previous: parseFlag(query, "previous"),
    query: {
      follow: parseFlag(query, "follow"),
      timestamps: parseFlag(query, "timestamps"),
      ...(tailLines === undefined ? {} : { tailLines }),
      ...(limitBytes === undefined ? {} : { limitBytes }),
      ...(sinceMs === undefined ? {} : { sinceMs }),
    },
  };
}

function parseStreams(query: URLSearchParams): StreamQuery | Refusal {
  const tty = parseFlag(query, "tty");
  const streams = {
    stdin: parseFlag(query, "input"),
    stdout: parseFlag(query, "output"),
    // A terminal has no separate stderr.
    stderr: parseFlag(query, "error") && !tty,
    tty,
  };
  return streams.stdin || streams.stdout || streams.stderr
    ? streams
    : buildRefusal(400, "you must specify at least 1 of stdin, stdout, stderr");
}

function parseExec(target: ContainerName, query: URLSearchParams): KubeletRequest | Refusal {
  const command = query.getAll("command");
  if (command.length === 0) return buildRefusal(400, "the request has no command");
  const streams = parseStreams(query);
  return "kind" in streams ? streams : { kind: "exec", target, query: { command, ...streams } };
}

function parseAttach(target: ContainerName, query: URLSearchParams): KubeletRequest | Refusal {
  const streams = parseStreams(query);
  return "kind" in streams ? streams : { kind: "attach", target, query: streams };
}

function parseVerb(
  verb: string,
  target: ContainerName,
  { query, nowMs }: { readonly query: URLSearchParams; readonly nowMs: number },
): KubeletRequest | Refusal {
  switch (verb) {
    case "attach":
      return parseAttach(target, query);
    case "containerLogs":
      return parseLogs(target, query, nowMs);
    case "exec":
      return parseExec(target, query);
    default:
      return buildRefusal(404, NOT_FOUND_MESSAGE);
  }
}

export function parseRequest(target: string, nowMs: number): KubeletRequest | Refusal {
  const [path = "", search = ""] = target.split(/\?(.*)/s);
  if (path === "/healthz") return { kind: "health" };
  const [, verb = "", ...segments] = path.split("/");
  const [namespace, pod, container, ...extraSegments] = segments.map(decode);
  if (
    namespace === undefined ||
    pod === undefined ||
    container === undefined ||
    extraSegments.length > 0
  ) {
    return buildRefusal(404, NOT_FOUND_MESSAGE);
  }
  const query = new URLSearchParams(search);
  return parseVerb(verb, { namespace, pod, container }, { query, nowMs });
}

interface FoundContainer {
  readonly kind: "found";
  readonly id: string;
}

function listRuns(
  containers: readonly ContainerSummary[],
  name: string,
): readonly ContainerSummary[] {
  return containers
    .filter(
      (containerStatus) => containerStatus.name === name && containerStatus.state !== "CREATED",
    )
    .sort((one, other) => other.attempt - one.attempt);
}

function findStatus(pod: Pod, name: string): ContainerStatus | undefined {
  const { containerStatuses = [], initContainerStatuses = [] } = pod.status ?? {};
  return [...containerStatuses, ...initContainerStatuses].find((status) => status.name === name);
}

function hasContainer({ spec }: Pod, name: string): boolean {
  return [...spec.containers, ...(spec.initContainers ?? [])].some((one) => one.name === name);
}

function describeWaiting(
  { container, pod }: ContainerName,
  status: ContainerStatus | undefined,
): string {
  const description = `container ${JSON.stringify(container)} in pod ${JSON.stringify(pod)}`;
  if (status === undefined) return `${description} is not available`;
  const reason = status.state.waiting?.reason ?? "ContainerCreating";
  switch (reason) {
    case "ErrImagePull":
      return `${description} is waiting to start: image can't be pulled`;
    case "ImagePullBackOff":
      return `${description} is waiting to start: trying and failing to pull image`;
    default:
      return `${description} is waiting to start: ${reason}`;
  }
}

export interface PodWithContainers {
  readonly pod: Pod;
  readonly containers: readonly ContainerSummary[];
}

/**
 * Finds the run of the container whose log is requested. `previous` selects the last exited run before the current run. A
 * container that waits for a restart has no current run.
 */
export function findLogRun(
  podWithContainers: PodWithContainers | undefined,
  target: ContainerName,
  previous: boolean,
): FoundContainer | Refusal {
  const name = JSON.stringify(target.container);
  const podName = JSON.stringify(target.pod);
  if (podWithContainers === undefined) return buildRefusal(404, `pod ${podName} does not exist`);
  if (!hasContainer(podWithContainers.pod, target.container)) {
    return buildRefusal(404, `container ${name} not found in pod ${podName}`);
  }
  const runs = listRuns(podWithContainers.containers, target.container);
  const status = findStatus(podWithContainers.pod, target.container);
  const previousRuns = runs.slice(status?.state.waiting === undefined ? 1 : 0);
  const run = previous ? previousRuns.find(({ state }) => state === "EXITED") : runs[0];
  if (run !== undefined) return { kind: "found", id: run.id };
  return buildRefusal(
    400,
    previous
      ? `previous terminated container ${name} in pod ${podName} not found`
      : describeWaiting(target, status),
  );
}

export function findRunningRun(
  podWithContainers: PodWithContainers | undefined,
  target: ContainerName,
): FoundContainer | Refusal {
  if (podWithContainers === undefined)
    return { kind: "refused", code: 404, message: "pod does not exist" };
  const run = listRuns(podWithContainers.containers, target.container).find(
    ({ state }) => state === "RUNNING",
  );
  if (run !== undefined) return { kind: "found", id: run.id };
  const message = `container not found (${JSON.stringify(target.container)})`;
  return { kind: "refused", code: 500, message };
}
