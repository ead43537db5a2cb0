// SPDX-License-Identifier: Apache-2.0
// What a runtime adds to a sandbox's status when it is asked to be verbose: text whose form is each runtime's own. Pure.

/** What is used of it. */
export interface SandboxInfo {
  /** Of the pause container; absent when it is dead, or there is none (CRI-O's `drop_infra_ctr`). */
  readonly pid?: number;
  /** Path of the network namespace; absent where it is the node's, or not told. */
  readonly netnsPath?: string;
}

type Json = Readonly<Record<string, unknown>>;

function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function memberOf(value: unknown, key: string): unknown {
  return isJson(value) ? value[key] : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // a runtime's own words: what cannot be read is not told
  }
}

function netnsPathOf(info: unknown): string | undefined {
  const namespaces = memberOf(memberOf(memberOf(info, "runtimeSpec"), "linux"), "namespaces");
  const network: unknown = Array.isArray(namespaces)
    ? namespaces.find((namespace: unknown) => memberOf(namespace, "type") === "network")
    : undefined;
  const path = memberOf(network, "path");
  return typeof path === "string" && path.startsWith("/") ? path : undefined;
}

/**
 * Reads the member `info` of a verbose answer: JSON with `pid` and the OCI specification of the pause container, by
 * containerd and CRI-O alike. Source: containerd 1.6 sandbox_status.go, CRI-O 1.29 sandbox_status.go.
 */
export function parseSandboxInfo(info: Readonly<Record<string, string>>): SandboxInfo {
  const told = parse(info["info"] ?? "");
  const pid = memberOf(told, "pid");
  const netnsPath = netnsPathOf(told);
  return {
    ...(typeof pid === "number" && pid > 0 ? { pid } : {}),
    ...(netnsPath === undefined ? {} : { netnsPath }),
  };
}
