// SPDX-License-Identifier: Apache-2.0
// Discovery of the container runtime: the first address that answers CRI v1 is used.
import { AppError, isAppError, messageOf, type Clock } from "@patchbay/base";

import { openEndpoint, type Endpoint } from "./grpc.ts";

/** Sockets of containerd, CRI-O and the containerd of k3s. */
export const DEFAULT_CRI_ENDPOINTS: readonly string[] = [
  "unix:///run/containerd/containerd.sock",
  "unix:///run/crio/crio.sock",
  "unix:///run/k3s/containerd/containerd.sock",
];

/** Returns the sockets as `hostProcess` sees them, so that a pod needs no host path. Source: proc_pid_root(5). */
export function defaultEndpoints(hostProcess: number | undefined): readonly string[] {
  if (hostProcess === undefined) return DEFAULT_CRI_ENDPOINTS;
  const root = `unix:///proc/${String(hostProcess)}/root`;
  return DEFAULT_CRI_ENDPOINTS.map((endpoint) => endpoint.replace("unix://", root));
}

const VERSION_TIMEOUT_MS = 5000;

export interface EndpointFinder {
  /** @throws AppError with CRI_UNAVAILABLE while no address answers */
  get(): Promise<Endpoint>;
  close(): void;
}

async function probe(address: string, clock: Clock): Promise<Endpoint> {
  const endpoint = openEndpoint(address, clock);
  const call = { service: "runtime.v1.RuntimeService", method: "Version", request: {} } as const;
  try {
    await endpoint.call(call, VERSION_TIMEOUT_MS);
    return endpoint;
  } catch (error) {
    endpoint.close();
    throw error;
  }
}

function describeReason(error: unknown): string {
  return isAppError(error) ? String(error.details["reason"] ?? error.message) : messageOf(error);
}

async function findFirst(addresses: readonly string[], clock: Clock): Promise<Endpoint> {
  const reasons: string[] = [];
  for (const address of addresses) {
    try {
      return await probe(address, clock);
    } catch (error) {
      reasons.push(describeReason(error));
    }
  }
  throw new AppError("CRI_UNAVAILABLE", {
    endpoint: addresses.join(", "),
    reason: reasons.join("; "),
  });
}

/** Probes the addresses in order at each use until one has answered. */
export function findEndpoint(addresses: readonly string[], clock: Clock): EndpointFinder {
  let probing: Promise<Endpoint> | undefined;
  let isClosed = false;
  const start = async (): Promise<Endpoint> => {
    try {
      const found = await findFirst(addresses, clock);
      if (isClosed) found.close();
      return found;
    } catch (error) {
      probing = undefined;
      throw error;
    }
  };
  return {
    get: () => (probing ??= start()),
    close: () => {
      isClosed = true;
      probing?.then(
        (endpoint) => {
          endpoint.close();
        },
        () => undefined,
      );
    },
  };
}
