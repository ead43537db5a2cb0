// SPDX-License-Identifier: Apache-2.0
// What exactly does a probe ask, and where? Pure. A tenant writes probes, and the node asks them: only the pod is asked.
import type { Container, Probe } from "@patchbay/api";

/** What is asked of whom. */
export type Question =
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
  /** It cannot be asked: why. */
  | { readonly kind: "none"; readonly reason: string };

/** Where a pod is reached. */
export interface PodPlace {
  /** Its addresses; of the node where it is in the node's network. */
  readonly ips: readonly string[];
  readonly isOnNode: boolean;
}

/** Source: RFC 9110 5.1 and 5.5: what a header may have. */
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;
const LOOPBACK: readonly string[] = ["127.0.0.1", "localhost", "::1"];

function none(reason: string): Question {
  return { kind: "none", reason };
}

/** A number, or the name of a port of the container. */
function portOf(container: Container, port: number | string): number | undefined {
  const number = Number(port);
  const found = Number.isInteger(number)
    ? number
    : container.ports?.find(({ name }) => name === port)?.containerPort;
  return found !== undefined && found >= 1 && found <= 65_535 ? found : undefined;
}

function hostOf(host: string | undefined, { ips, isOnNode }: PodPlace): string | undefined {
  if (host === undefined || host === "") return ips[0];
  const isOwn = ips.includes(host) || (isOnNode && LOOPBACK.includes(host));
  return isOwn ? host : undefined;
}

/** Host and port, or why there is none. */
function addressOf(
  asked: { readonly host?: string; readonly port: number | string },
  container: Container,
  place: PodPlace,
): { readonly host: string; readonly port: number } | string {
  const port = portOf(container, asked.port);
  if (port === undefined) return `there is no port ${String(asked.port)}`;
  const host = hostOf(asked.host, place);
  if (host !== undefined) return { host, port };
  return place.ips.length === 0
    ? "the pod has no address yet"
    : `${asked.host ?? ""} is not an address of the pod, and no other is asked`;
}

function httpOf(
  asked: NonNullable<Probe["httpGet"]>,
  container: Container,
  place: PodPlace,
): Question {
  const address = addressOf(asked, container, place);
  if (typeof address === "string") return none(address);
  const headers = (asked.httpHeaders ?? []).map(({ name, value }) => [name, value] as const);
  const wrong = headers.find(
    ([name, value]) => !HEADER_NAME.test(name) || !HEADER_VALUE.test(value),
  );
  if (wrong !== undefined) return none(`${JSON.stringify(wrong[0])} cannot be a header`);
  const path = asked.path ?? "/";
  if (/[^\x21-\x7e]/.test(path)) return none("its path is not valid in a request");
  const isTls = asked.scheme === "HTTPS";
  return {
    kind: "http",
    isTls,
    ...address,
    path: path.startsWith("/") ? path : `/${path}`,
    headers,
  };
}

/** What the probe asks. */
export function questionOf(probe: Probe, container: Container, place: PodPlace): Question {
  if (probe.exec !== undefined) {
    const { command = [] } = probe.exec;
    return command.length === 0 ? none("it has no command") : { kind: "exec", command };
  }
  if (probe.tcpSocket !== undefined) {
    const address = addressOf(probe.tcpSocket, container, place);
    return typeof address === "string" ? none(address) : { kind: "tcp", ...address };
  }
  if (probe.httpGet !== undefined) return httpOf(probe.httpGet, container, place);
  return none("gRPC probes are not supported");
}
