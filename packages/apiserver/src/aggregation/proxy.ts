// SPDX-License-Identifier: Apache-2.0
// Hands requests for aggregated APIs to their servers, and says to them who asks. Source: Kubernetes "Aggregation layer".
import type {
  IncomingHttpHeaders,
  IncomingMessage,
  OutgoingHttpHeaders,
  ServerResponse,
} from "node:http";
import { request as httpsRequest } from "node:https";
import { messageOf } from "@patchbay/core/errors";
import type { Connections, Peer } from "../backend/connections.ts";
import type { Aggregator } from "../http/app.ts";
import { StatusError } from "../http/status.ts";
import type { User } from "../auth/user.ts";
import type { Registry } from "../kinds/registry.ts";
import type { Store } from "../storage/store.ts";
import { findApiService, resolveApiService, toPeer } from "./api-services.ts";

/** A server that says nothing for so long is given up; a watch says something at least that often. */
const IDLE_TIMEOUT_MS = 90_000;

/** Headers that concern one connection only, and those that only this server may set. */
const DROPPED =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|authorization|x-remote-.*|host)$/;

/** What the proxy works with. */
export interface ProxyDeps {
  readonly store: Store;
  readonly registry: Registry;
  readonly connections: Connections;
}

function unavailable(message: string): StatusError {
  return new StatusError({ code: 503, reason: "ServiceUnavailable", message });
}

function requestHeaders(
  headers: IncomingHttpHeaders,
  user: User,
  host: string,
): OutgoingHttpHeaders {
  const kept = Object.entries(headers).filter(([name]) => !DROPPED.test(name));
  return {
    ...Object.fromEntries(kept),
    host,
    "x-remote-user": user.name,
    "x-remote-group": [...user.groups],
  };
}

function responseHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !DROPPED.test(name)));
}

/** Passes one request on and its answer back. Throws a StatusError 503 where the server cannot be reached. */
function forward(
  exchange: { readonly request: IncomingMessage; readonly response: ServerResponse },
  peer: Peer,
  given: { readonly user: User; readonly connections: Connections },
): Promise<void> {
  const { request, response } = exchange;
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const outgoing = httpsRequest({
    ...given.connections.optionsFor(peer),
    method: request.method,
    path: request.url,
    headers: requestHeaders(request.headers, given.user, peer.serverName),
    timeout: IDLE_TIMEOUT_MS,
  });
  outgoing.on("timeout", () => {
    outgoing.destroy(new Error("the server does not answer"));
  });
  outgoing.on("error", (error) => {
    if (response.headersSent) {
      response.destroy();
      resolve(undefined);
    } else {
      reject(unavailable(`error trying to reach service: ${messageOf(error)}`));
    }
  });
  outgoing.on("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, responseHeaders(answer.headers));
    response.flushHeaders();
    answer.pipe(response);
    answer.on("close", () => {
      resolve(undefined);
    });
  });
  response.on("close", () => {
    outgoing.destroy();
  });
  request.pipe(outgoing);
  return promise;
}

/** Makes the proxy. */
export function makeAggregator(deps: ProxyDeps): Aggregator {
  return {
    serve: async (request, response, user) => {
      const path = (request.url ?? "").split("?")[0] ?? "";
      const [, root, group = "", version = ""] = path.split("/");
      const own = () =>
        deps.registry.list().some((kind) => kind.group === group && kind.version === version);
      const apiService = root === "apis" ? findApiService(deps.store, group, version) : undefined;
      if (apiService === undefined || own()) {
        return false;
      }
      const resolution = resolveApiService(deps.store, apiService);
      if (!resolution.found) {
        throw unavailable(
          `the server is currently unable to handle the request: ${resolution.message}`,
        );
      }
      const peer = toPeer(apiService, resolution);
      await forward({ request, response }, peer, { user, connections: deps.connections });
      return true;
    },
  };
}
