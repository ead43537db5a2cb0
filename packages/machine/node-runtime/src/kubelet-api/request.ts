// SPDX-License-Identifier: Apache-2.0
// What does the API server want of this node? From the line of its request; pure. Source: Kubernetes kubelet, server.go.
import type { LogQuery } from "./logs/read-log.ts";
import { parseRecordTime } from "./logs/record.ts";

/** A container, as the API server names it. */
export interface ContainerName {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

/** Which streams are wanted. */
export interface StreamQuery {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** What is to be run beside that. */
export interface ExecQuery extends StreamQuery {
  readonly command: readonly string[];
}

/** A request that is understood. */
export type KubeletRequest =
  | { readonly kind: "health" }
  | {
      readonly kind: "logs";
      readonly of: ContainerName;
      readonly previous: boolean;
      readonly query: LogQuery;
    }
  | { readonly kind: "exec"; readonly of: ContainerName; readonly query: ExecQuery }
  | { readonly kind: "attach"; readonly of: ContainerName; readonly query: StreamQuery };

/** Why a request is refused, as text for who asked. */
export interface Refusal {
  readonly kind: "refused";
  readonly code: number;
  readonly message: string;
}

/** For a path that is none of ours. */
const NOT_FOUND = "404 page not found";

function refused(code: number, message: string): Refusal {
  return { kind: "refused", code, message };
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined; // a broken escape names nothing
  }
}

function flag(query: URLSearchParams, name: string): boolean {
  return ["1", "true"].includes(query.get(name) ?? "");
}

/** A whole number of at least `least`; undefined where none is given, NaN for anything else. */
function count(query: URLSearchParams, name: string, least: number): number | undefined {
  const text = query.get(name);
  if (text === null || text === "") return undefined;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
  return value >= least ? value : NaN;
}

function sinceOf(query: URLSearchParams, nowMs: number): number | undefined {
  const seconds = count(query, "sinceSeconds", 1);
  if (seconds !== undefined) return nowMs - seconds * 1000;
  const time = query.get("sinceTime");
  return time === null || time === "" ? undefined : parseRecordTime(time);
}

function logsOf(
  of: ContainerName,
  query: URLSearchParams,
  nowMs: number,
): KubeletRequest | Refusal {
  const tailLines = count(query, "tailLines", 0);
  const limitBytes = count(query, "limitBytes", 1);
  const sinceMs = sinceOf(query, nowMs);
  if ([tailLines, limitBytes, sinceMs].some((value) => Number.isNaN(value))) {
    return refused(422, "tailLines, limitBytes, sinceSeconds or sinceTime has an invalid value");
  }
  return {
    kind: "logs",
    of,
    previous: flag(query, "previous"),
    query: {
      follow: flag(query, "follow"),
      timestamps: flag(query, "timestamps"),
      ...(tailLines === undefined ? {} : { tailLines }),
      ...(limitBytes === undefined ? {} : { limitBytes }),
      ...(sinceMs === undefined ? {} : { sinceMs }),
    },
  };
}

function streamsOf(query: URLSearchParams): StreamQuery | Refusal {
  const tty = flag(query, "tty");
  const wanted = {
    stdin: flag(query, "input"),
    stdout: flag(query, "output"),
    // A terminal has one output.
    stderr: flag(query, "error") && !tty,
    tty,
  };
  return wanted.stdin || wanted.stdout || wanted.stderr
    ? wanted
    : refused(400, "you must specify at least 1 of stdin, stdout, stderr");
}

function execOf(of: ContainerName, query: URLSearchParams): KubeletRequest | Refusal {
  const command = query.getAll("command");
  if (command.length === 0) return refused(400, "no command was given");
  const streams = streamsOf(query);
  return "kind" in streams ? streams : { kind: "exec", of, query: { command, ...streams } };
}

function attachOf(of: ContainerName, query: URLSearchParams): KubeletRequest | Refusal {
  const streams = streamsOf(query);
  return "kind" in streams ? streams : { kind: "attach", of, query: streams };
}

/** What is asked about a container, by the first word of the path. */
function askedOf(
  verb: string,
  of: ContainerName,
  { query, nowMs }: { readonly query: URLSearchParams; readonly nowMs: number },
): KubeletRequest | Refusal {
  switch (verb) {
    case "attach":
      return attachOf(of, query);
    case "containerLogs":
      return logsOf(of, query, nowMs);
    case "exec":
      return execOf(of, query);
    default:
      return refused(404, NOT_FOUND);
  }
}

/** Reads the target of a request, a path with its query. */
export function parseRequest(target: string, nowMs: number): KubeletRequest | Refusal {
  const [path = "", search = ""] = target.split(/\?(.*)/s);
  if (path === "/healthz") return { kind: "health" };
  const [, verb = "", ...segments] = path.split("/");
  const [namespace, pod, container, ...more] = segments.map(decode);
  if (namespace === undefined || pod === undefined || container === undefined || more.length > 0) {
    return refused(404, NOT_FOUND);
  }
  const query = new URLSearchParams(search);
  return askedOf(verb, { namespace, pod, container }, { query, nowMs });
}
