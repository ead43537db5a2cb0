// SPDX-License-Identifier: Apache-2.0
// A pod's HTTPS response at a port of its manifest, without certificate verification.
import { request } from "node:https";
import type { Pod } from "@patchbay/api/kubernetes";

export interface Question {
  /** Name of the port. */
  readonly port: string;
  readonly path: string;
  readonly token?: string;
}

interface NamedPort {
  readonly name?: string;
  readonly containerPort: number;
}

export interface PodAnswer {
  readonly code: number;
  readonly text: string;
}

/** All ports of its containers. */
export function portsOf({ spec }: Pod): readonly NamedPort[] {
  return spec.containers.flatMap((container) => container.ports ?? []);
}

function portOf(pod: Pod, wanted: string): number {
  const port = portsOf(pod).find(({ name }) => name === wanted);
  if (port === undefined) throw new Error(`the pod has no port ${wanted}`);
  return port.containerPort;
}

/** Sends a request; rejects without a listener. */
export function askPod(pod: Pod, { port, path, token }: Question): Promise<PodAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<PodAnswer>();
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const at = { host: pod.status?.podIP, port: portOf(pod, port), path };
  const requested = request({ ...at, headers, rejectUnauthorized: false }, (response) => {
    let text = "";
    response.setEncoding("utf8").on("data", (part: string) => (text += part));
    response.on("end", () => {
      resolve({ code: response.statusCode ?? 0, text });
    });
  });
  requested.on("error", reject).end();
  return promise;
}
