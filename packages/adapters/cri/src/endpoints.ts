// SPDX-License-Identifier: Apache-2.0
// Finds the container runtime: tries addresses in order and uses the first that answers a CRI v1 call.
import { AppError, isAppError, messageOf, type Clock } from "@patchbay/base";

import { openEndpoint, type Endpoint } from "./grpc.ts";

export const DEFAULT_CRI_ENDPOINTS: readonly string[] = [
  "unix:///run/containerd/containerd.sock",
  "unix:///run/crio/crio.sock",
  "unix:///run/k3s/containerd/containerd.sock",
];

/** Returns the default addresses. If `hostProcess` is set, they are below that process's root directory. Source: proc_pid_root(5) */
export function listDefaultEndpoints(hostProcess: number | undefined): readonly string[] {
  if (hostProcess === undefined) return DEFAULT_CRI_ENDPOINTS;
  const root = `unix:///proc/${String(hostProcess)}/root`;
  return DEFAULT_CRI_ENDPOINTS.map((endpoint) => endpoint.replace("unix://", root));
}

export interface CriOptions {
  /** Addresses such as `unix:///run/crio/crio.sock`. The client uses the first address that answers CRI v1. */
  readonly endpoints: readonly string[];
  readonly clock: Clock;
}

const VERSION_TIMEOUT_MS = 20_000;

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

export function createEndpointFinder(addresses: readonly string[], clock: Clock): EndpointFinder {
  let endpointPromise: Promise<Endpoint> | undefined;
  let isClosed = false;
  const startProbe = async (): Promise<Endpoint> => {
    try {
      const foundEndpoint = await findFirst(addresses, clock);
      if (isClosed) foundEndpoint.close();
      return foundEndpoint;
    } catch (error) {
      endpointPromise = undefined;
      throw error;
    }
  };
  return {
    get: () => (endpointPromise ??= startProbe()),
    close: () => {
      isClosed = true;
      endpointPromise?.then(
        (endpoint) => {
          endpoint.close();
        },
        () => undefined,
      );
    },
  };
}
