// SPDX-License-Identifier: Apache-2.0
// The metrics of the machine's services, read from their sockets.
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { healthSocketOf, type Paths } from "../data-dir/paths.ts";
import { mergeMetrics, type ServiceMetrics } from "./merge.ts";

/** Programs that print metrics. */
const SERVICES = [
  "net-agent",
  "node-runtime",
  "service-net",
  "virt-api",
  "virt-controller",
  "virt-handler",
] as const;
/** Time for one service, milliseconds; virt-handler reads counters of each guest. */
const TIMEOUT_MS = 5_000;

async function readSocket(socketPath: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const asked = request({ socketPath, path: "/metrics", agent: false, signal });
    const [answer] = (await once(asked.end(), "response")) as [IncomingMessage];
    const text = (await answer.setEncoding("utf8").toArray()).join("");
    return answer.statusCode === 200 ? text : undefined;
  } catch {
    return undefined; // patchbay_service_up reports it
  }
}

/** Reads them all at once; a service that does not answer has none. */
export async function readMetrics(paths: Paths): Promise<string> {
  const read = async (service: string): Promise<ServiceMetrics> => {
    return { service, text: await readSocket(healthSocketOf(paths, service)) };
  };
  return mergeMetrics(await Promise.all(SERVICES.map(read)));
}
