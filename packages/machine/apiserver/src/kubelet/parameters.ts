// SPDX-License-Identifier: Apache-2.0
// Options of exec, attach and log requests, as query parameters for the kubelet.
import { forbiddenValue, invalidValue } from "../meta/causes.ts";
import { type Cause, badRequest, invalid } from "../meta/status.ts";
import { type Fields, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { parseTime } from "../objects/time.ts";

const STREAM_FLAGS: readonly string[] = ["stdin", "stdout", "stderr", "tty"];

/** As kubelets call the streams. Source: Kubernetes core/v1 ExecStdinParam and its kin. */
const PARAMETERS: Readonly<Record<string, string>> = {
  stdin: "input",
  stdout: "output",
  stderr: "error",
  tty: "tty",
};

function isSet(query: URLSearchParams, flag: string): boolean {
  return ["true", "1"].includes(query.get(flag) ?? "");
}

/** What the client says, as admission is asked about it. */
export function connectionOf(query: URLSearchParams): Fields {
  const flags = STREAM_FLAGS.filter((name) => isSet(query, name)).map(
    (name) => [name, true] as const,
  );
  const command = query.getAll("command");
  const container = query.get("container") ?? "";
  return {
    ...Object.fromEntries(flags),
    ...(container === "" ? {} : { container }),
    ...(command.length === 0 ? {} : { command }),
  };
}

/** The same, as a kubelet takes it. */
export function execParametersOf(query: URLSearchParams): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const word of query.getAll("command")) {
    parameters.append("command", word);
  }
  for (const name of STREAM_FLAGS.filter((flag) => isSet(query, flag))) {
    parameters.set(PARAMETERS[name] ?? name, "1");
  }
  return parameters;
}

const ABOUT = { group: "", resource: "pods", kind: "PodLogOptions" };

/** Numbers and the least that each may be. */
const NUMBERS: readonly (readonly [name: string, least: number])[] = [
  ["tailLines", 0],
  ["limitBytes", 1],
  ["sinceSeconds", 1],
];
const VALUES: readonly string[] = [...NUMBERS.map(([name]) => name), "sinceTime"];
const LOG_FLAGS: readonly string[] = ["follow", "previous", "timestamps"];

function isFlagSet(query: URLSearchParams, name: string): boolean {
  return query.has(name) && !/^(false|0)$/i.test(query.get(name) ?? "");
}

function numberCauses(query: URLSearchParams): readonly Cause[] {
  return NUMBERS.flatMap(([name, least]) => {
    const text = query.get(name) ?? "";
    if (text === "") {
      return [];
    }
    if (!/^-?\d{1,15}$/.test(text)) {
      throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
    }
    const why = least === 0 ? "must be greater than or equal to 0" : "must be greater than 0";
    return Number(text) < least ? [invalidValue(name, Number(text), why)] : [];
  });
}

function timeCauses(query: URLSearchParams): readonly Cause[] {
  const time = query.get("sinceTime") ?? "";
  if (time === "") {
    return [];
  }
  if (Number.isNaN(parseTime(time))) {
    throw badRequest(`parsing time ${JSON.stringify(time)}: it is no time of RFC 3339`);
  }
  const both = (query.get("sinceSeconds") ?? "") !== "";
  return both
    ? [forbiddenValue("", "at most one of `sinceTime` or `sinceSeconds` may be specified")]
    : [];
}

/** The options as a kubelet takes them. Throws StatusErrors 400 and 422. */
export function logParametersOf(query: URLSearchParams, pod: string): URLSearchParams {
  const causes = [...numberCauses(query), ...timeCauses(query)];
  if (causes.length > 0) {
    throw invalid(ABOUT, pod, causes);
  }
  const parameters = new URLSearchParams();
  for (const name of LOG_FLAGS.filter((flag) => isFlagSet(query, flag))) {
    parameters.set(name, "true");
  }
  for (const name of VALUES) {
    const value = query.get(name) ?? "";
    if (value !== "") {
      parameters.set(name, value);
    }
  }
  return parameters;
}

function namesOf(pod: KubeObject, list: string): readonly string[] {
  return listOf(valueAt(pod, "spec", list)).map((container) => textAt(container, "name"));
}

function ambiguous(pod: KubeObject): string {
  const containers = namesOf(pod, "containers");
  const initial = namesOf(pod, "initContainers");
  const first = `a container name must be specified for pod ${pod.metadata.name}, choose one of: [${containers.join(" ")}]`;
  return initial.length === 0
    ? first
    : `${first} or one of the init containers: [${initial.join(" ")}]`;
}

/** The name of the container; `asked` is empty where none was named. Throws a StatusError 400. */
export function chooseContainer(pod: KubeObject, asked: string): string {
  const containers = namesOf(pod, "containers");
  if (asked === "") {
    const [only] = containers;
    if (only === undefined || containers.length > 1) {
      throw badRequest(ambiguous(pod));
    }
    return only;
  }
  const all = [...containers, ...namesOf(pod, "initContainers")];
  if (!all.includes(asked)) {
    throw badRequest(`container ${asked} is not valid for pod ${pod.metadata.name}`);
  }
  return asked;
}
