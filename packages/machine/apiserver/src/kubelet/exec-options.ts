// SPDX-License-Identifier: Apache-2.0
// What does a client want to run, and which streams of it? Source: Kubernetes core/v1 PodExecOptions.
import type { Fields } from "../objects/json.ts";

const FLAGS: readonly string[] = ["stdin", "stdout", "stderr", "tty"];

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
  const flags = FLAGS.filter((name) => isSet(query, name)).map((name) => [name, true] as const);
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
  for (const name of FLAGS.filter((flag) => isSet(query, flag))) {
    parameters.set(PARAMETERS[name] ?? name, "1");
  }
  return parameters;
}
