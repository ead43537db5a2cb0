// SPDX-License-Identifier: Apache-2.0
import { forbiddenValue, invalidValue } from "../meta/causes.ts";
import { type Cause, badRequest, invalid } from "../meta/status.ts";
import { type Fields, asList, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { parseTime } from "../objects/time.ts";

const STREAM_FLAGS: readonly string[] = ["stdin", "stdout", "stderr", "tty"];

/** Maps names of the API's query parameters to the kubelet's names. Source: Kubernetes core/v1, ExecStdinParam and similar constants. */
const KUBELET_PARAMETERS: Readonly<Record<string, string>> = {
  stdin: "input",
  stdout: "output",
  stderr: "error",
  tty: "tty",
};

function isSet(query: URLSearchParams, flag: string): boolean {
  return ["true", "1"].includes(query.get(flag) ?? "");
}

/** Converts the query to options for admission. Source: Kubernetes core/v1 PodExecOptions. */
export function toConnectOptions(query: URLSearchParams): Fields {
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

export function toExecParameters(query: URLSearchParams): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const argument of query.getAll("command")) {
    parameters.append("command", argument);
  }
  for (const name of STREAM_FLAGS.filter((flag) => isSet(query, flag))) {
    parameters.set(KUBELET_PARAMETERS[name] ?? name, "1");
  }
  return parameters;
}

const LOG_OPTIONS = { group: "", resource: "pods", kind: "PodLogOptions" };

const LOG_NUMBERS: readonly (readonly [name: string, minimum: number])[] = [
  ["tailLines", 0],
  ["limitBytes", 1],
  ["sinceSeconds", 1],
];
const LOG_VALUES: readonly string[] = [...LOG_NUMBERS.map(([name]) => name), "sinceTime"];
const LOG_FLAGS: readonly string[] = ["follow", "previous", "timestamps"];

function isFlagSet(query: URLSearchParams, name: string): boolean {
  return query.has(name) && !/^(false|0)$/i.test(query.get(name) ?? "");
}

function numberCauses(query: URLSearchParams): readonly Cause[] {
  return LOG_NUMBERS.flatMap(([name, minimum]) => {
    const text = query.get(name) ?? "";
    if (text === "") {
      return [];
    }
    if (!/^-?\d{1,15}$/.test(text)) {
      throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
    }
    const message = minimum === 0 ? "must be greater than or equal to 0" : "must be greater than 0";
    return Number(text) < minimum ? [invalidValue(name, Number(text), message)] : [];
  });
}

function timeCauses(query: URLSearchParams): readonly Cause[] {
  const time = query.get("sinceTime") ?? "";
  if (time === "") {
    return [];
  }
  if (Number.isNaN(parseTime(time))) {
    throw badRequest(`parsing time ${JSON.stringify(time)}: it is not an RFC 3339 time`);
  }
  const hasBoth = (query.get("sinceSeconds") ?? "") !== "";
  return hasBoth
    ? [forbiddenValue("", "at most one of `sinceTime` or `sinceSeconds` may be specified")]
    : [];
}

/** Validates and converts the query. Source: Kubernetes core/v1 PodLogOptions and its validation. */
export function toLogParameters(query: URLSearchParams, pod: string): URLSearchParams {
  const causes = [...numberCauses(query), ...timeCauses(query)];
  if (causes.length > 0) {
    throw invalid(LOG_OPTIONS, pod, causes);
  }
  const parameters = new URLSearchParams();
  for (const name of LOG_FLAGS.filter((flag) => isFlagSet(query, flag))) {
    parameters.set(name, "true");
  }
  for (const name of LOG_VALUES) {
    const value = query.get(name) ?? "";
    if (value !== "") {
      parameters.set(name, value);
    }
  }
  return parameters;
}

function containerNames(pod: KubeObject, list: string): readonly string[] {
  return asList(valueAt(pod, "spec", list)).map((container) => textAt(container, "name"));
}

function ambiguousMessage(pod: KubeObject): string {
  const containers = containerNames(pod, "containers");
  const initContainers = containerNames(pod, "initContainers");
  const text = `a container name must be specified for pod ${pod.metadata.name}, choose one of: [${containers.join(" ")}]`;
  return initContainers.length === 0
    ? text
    : `${text} or one of the init containers: [${initContainers.join(" ")}]`;
}

/**
 * Returns the requested container, or the only container if the request names no container. Throws a StatusError 400 if the pod lacks the
 * requested container, or has several containers and the request names none. Source: Kubernetes registry core/pod, validateContainer.
 */
export function chooseContainer(pod: KubeObject, requested: string): string {
  const containers = containerNames(pod, "containers");
  if (requested === "") {
    const [onlyContainer] = containers;
    if (onlyContainer === undefined || containers.length > 1) {
      throw badRequest(ambiguousMessage(pod));
    }
    return onlyContainer;
  }
  const knownContainers = [...containers, ...containerNames(pod, "initContainers")];
  if (!knownContainers.includes(requested)) {
    throw badRequest(`container ${requested} is not valid for pod ${pod.metadata.name}`);
  }
  return requested;
}
