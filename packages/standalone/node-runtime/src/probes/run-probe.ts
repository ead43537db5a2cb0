// SPDX-License-Identifier: Apache-2.0
import type { Container, Probe } from "@patchbay/api/kubernetes";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import { isAppError, messageOf } from "@patchbay/base";
import type { ContainerRuntime } from "@patchbay/core/interfaces";
import type { ProbeResult } from "./probe-state.ts";

type ProbeRequest =
  | { readonly kind: "exec"; readonly command: readonly string[] }
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | {
      readonly kind: "http";
      readonly isTls: boolean;
      readonly host: string;
      readonly port: number;
      readonly path: string;
      readonly headers: readonly (readonly [name: string, value: string])[];
    }
  | { readonly kind: "none"; readonly reason: string };

interface PodAddresses {
  /** Addresses of the pod, or of the node if the pod uses the host network. */
  readonly ips: readonly string[];
  readonly isOnNode: boolean;
}

// Source: RFC 9110, sections 5.1 and 5.5.
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;
const LOOPBACK: readonly string[] = ["127.0.0.1", "localhost", "::1"];

function buildInvalidRequest(reason: string): ProbeRequest {
  return { kind: "none", reason };
}

function resolvePort(container: Container, port: number | string): number | undefined {
  const number = Number(port);
  const resolvedPort = Number.isInteger(number)
    ? number
    : container.ports?.find(({ name }) => name === port)?.containerPort;
  return resolvedPort !== undefined && resolvedPort >= 1 && resolvedPort <= 65_535
    ? resolvedPort
    : undefined;
}

function resolveHost(
  host: string | undefined,
  { ips, isOnNode }: PodAddresses,
): string | undefined {
  if (host === undefined || host === "") return ips[0];
  const isOwn = ips.includes(host) || (isOnNode && LOOPBACK.includes(host));
  return isOwn ? host : undefined;
}

function resolveAddress(
  action: { readonly host?: string; readonly port: number | string },
  container: Container,
  addresses: PodAddresses,
): { readonly host: string; readonly port: number } | string {
  const port = resolvePort(container, action.port);
  if (port === undefined) return `there is no port ${String(action.port)}`;
  const host = resolveHost(action.host, addresses);
  if (host !== undefined) return { host, port };
  return addresses.ips.length === 0
    ? "the pod has no address yet"
    : `${action.host ?? ""} is not an address of the pod; probes contact only the pod`;
}

function toHttpRequest(
  action: NonNullable<Probe["httpGet"]>,
  container: Container,
  addresses: PodAddresses,
): ProbeRequest {
  const address = resolveAddress(action, container, addresses);
  if (typeof address === "string") return buildInvalidRequest(address);
  const headers = (action.httpHeaders ?? []).map(({ name, value }) => [name, value] as const);
  const invalidHeader = headers.find(
    ([name, value]) => !HEADER_NAME.test(name) || !HEADER_VALUE.test(value),
  );
  if (invalidHeader !== undefined)
    return buildInvalidRequest(`${JSON.stringify(invalidHeader[0])} cannot be a header`);
  const path = action.path ?? "/";
  if (/[^\x21-\x7e]/.test(path)) return buildInvalidRequest("its path is not valid in a request");
  const isTls = action.scheme === "HTTPS";
  return {
    kind: "http",
    isTls,
    ...address,
    path: path.startsWith("/") ? path : `/${path}`,
    headers,
  };
}

/** Builds a probe's request. The probe's `host` must be an address of the pod, so that tenants cannot reach other hosts from the node. */
export function toProbeRequest(
  probe: Probe,
  container: Container,
  addresses: PodAddresses,
): ProbeRequest {
  if (probe.exec !== undefined) {
    const { command = [] } = probe.exec;
    return command.length === 0
      ? buildInvalidRequest("it has no command")
      : { kind: "exec", command };
  }
  if (probe.tcpSocket !== undefined) {
    const address = resolveAddress(probe.tcpSocket, container, addresses);
    return typeof address === "string" ? buildInvalidRequest(address) : { kind: "tcp", ...address };
  }
  if (probe.httpGet !== undefined) return toHttpRequest(probe.httpGet, container, addresses);
  return buildInvalidRequest("gRPC probes are not supported");
}

export interface ProbeReport {
  readonly outcome: ProbeResult;
  readonly message: string;
}

interface ProbeTarget {
  readonly containerId: string;
  readonly timeoutSeconds: number;
}

const MESSAGE_LENGTH_MAX = 500;

const SUCCESS: ProbeReport = { outcome: "success", message: "" };

function buildFailure(message: string): ProbeReport {
  return { outcome: "failure", message: message.trim().slice(0, MESSAGE_LENGTH_MAX) };
}

async function runExecProbe(
  runtime: Pick<ContainerRuntime, "execSync">,
  command: readonly string[],
  { containerId, timeoutSeconds }: ProbeTarget,
): Promise<ProbeReport> {
  try {
    const { exitCode, stdout, stderr } = await runtime.execSync(
      containerId,
      command,
      timeoutSeconds,
    );
    return exitCode === 0
      ? SUCCESS
      : buildFailure(`${stdout}${stderr}` || `it ended with ${String(exitCode)}`);
  } catch (error) {
    if (isAppError(error, "CRI_TIMED_OUT")) {
      return buildFailure(`it did not finish within ${String(timeoutSeconds)} s`);
    }
    if (isAppError(error, "CRI_FAILED") && error.details["status"] === "RESOURCE_EXHAUSTED") {
      return buildFailure("its output exceeds the limit");
    }
    // If the runtime is unavailable, the result is unknown. A program that cannot start counts as a failure.
    if (isAppError(error, "CRI_UNAVAILABLE"))
      return { outcome: "unknown", message: messageOf(error) };
    return buildFailure(messageOf(error));
  }
}

async function runTcpProbe(
  { host, port }: Extract<ProbeRequest, { kind: "tcp" }>,
  timeoutMs: number,
): Promise<ProbeReport> {
  const { promise, resolve } = Promise.withResolvers<ProbeReport>();
  const socket = connect({ host, port });
  socket.setTimeout(timeoutMs, () => {
    resolve(buildFailure(`no connection within ${String(timeoutMs)} ms`));
  });
  socket.once("connect", () => {
    resolve(SUCCESS);
  });
  socket.once("error", (error) => {
    resolve(buildFailure(error.message));
  });
  try {
    return await promise;
  } finally {
    socket.destroy();
  }
}

async function runHttpProbe(
  { isTls, host, port, path, headers }: Extract<ProbeRequest, { kind: "http" }>,
  timeoutMs: number,
): Promise<ProbeReport> {
  const { promise, resolve } = Promise.withResolvers<ProbeReport>();
  const headerFields = {
    "user-agent": "kube-probe/1",
    accept: "*/*",
    ...Object.fromEntries(headers),
  };
  const options = { host, port, path, headers: headerFields, agent: false as const };
  const signal = AbortSignal.timeout(timeoutMs);
  // The server's certificate is not verified. Source: kubelet.
  const outgoing = isTls
    ? httpsRequest({ ...options, rejectUnauthorized: false, signal })
    : httpRequest({ ...options, signal });
  outgoing.once("response", (response) => {
    const statusCode = response.statusCode ?? 0;
    resolve(
      statusCode >= 200 && statusCode < 400
        ? SUCCESS
        : buildFailure(`HTTP probe failed with statuscode: ${String(statusCode)}`),
    );
    outgoing.destroy();
  });
  outgoing.on("error", (error) => {
    resolve(
      buildFailure(signal.aborted ? `no response within ${String(timeoutMs)} ms` : error.message),
    );
  });
  outgoing.end();
  return promise;
}

/** Runs a probe. Reports errors as results, and never rejects. */
export async function runProbe(
  runtime: Pick<ContainerRuntime, "execSync">,
  probeRequest: ProbeRequest,
  target: ProbeTarget,
): Promise<ProbeReport> {
  const timeoutMs = target.timeoutSeconds * 1000;
  switch (probeRequest.kind) {
    case "exec":
      return runExecProbe(runtime, probeRequest.command, target);
    case "tcp":
      return runTcpProbe(probeRequest, timeoutMs);
    case "http":
      return runHttpProbe(probeRequest, timeoutMs);
    case "none":
      return buildFailure(probeRequest.reason);
  }
}
