// SPDX-License-Identifier: Apache-2.0
// Whose request is it: this server's, or that of an aggregated one?
import { messageOf } from "@patchbay/core/errors";
import type { Connections } from "../backend/connections.ts";
import type { Forwarding } from "../backend/forward-request.ts";
import { isUpgrade, tunnel } from "../backend/tunnel.ts";
import type { Aggregator } from "../http/app.ts";
import { textAt } from "../objects/json.ts";
import type { Store } from "../storage/store.ts";
import { availableCondition, findByPath, resolveApiService, toPeer } from "./api-services.ts";
import { forward, sendUnavailable } from "./forward.ts";
import { requestHeaders } from "./front-proxy-headers.ts";

/** Where APIServices and the Services behind them are found, and how their servers are reached. */
export interface ProxyDeps {
  readonly store: Store;
  readonly connections: Connections;
  /** Aborted when the server stops: open tunnels end. */
  readonly stop: AbortSignal;
}

/** Passes an upgrade on, or says why it cannot. */
async function tunnelOrSay(forwarding: Forwarding, stop: AbortSignal): Promise<void> {
  try {
    await tunnel(forwarding, stop);
  } catch (error) {
    sendUnavailable(forwarding.response, `error trying to reach service: ${messageOf(error)}`);
  }
}

/** Makes the proxy. An APIService that names a Service wins over a definition of the same group version. */
export function makeAggregator(deps: ProxyDeps): Aggregator {
  return {
    serve: async (request, response, user) => {
      const apiService = findByPath(deps.store, request.url ?? "");
      if (apiService === undefined) {
        return false;
      }
      const resolution = resolveApiService(deps.store, apiService);
      const isAvailable = textAt(availableCondition(apiService), "status") === "True";
      if (!isAvailable || !resolution.found) {
        sendUnavailable(response, "service unavailable");
        return true;
      }
      const peer = toPeer(apiService, resolution);
      const forwarding: Forwarding = {
        request,
        response,
        peer,
        connections: deps.connections,
        path: request.url ?? "",
        headersFor: (host) => requestHeaders(request, user, host),
      };
      await (isUpgrade(request) ? tunnelOrSay(forwarding, deps.stop) : forward(forwarding));
      return true;
    },
  };
}
