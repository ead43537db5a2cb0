// SPDX-License-Identifier: Apache-2.0
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "@patchbay/base";
import { type Connections, describeFailure } from "../backend/connections.ts";
import { type Forwarding, forwardResponse, openRequest } from "../backend/forward-request.ts";
import { isUpgrade, tunnel } from "../backend/tunnel.ts";
import type { Aggregator } from "../http/app.ts";
import { StatusError } from "../meta/status.ts";
import { textAt } from "../objects/json.ts";
import type { Store } from "../storage/store.ts";
import {
  findAvailableCondition,
  findApiServiceByPath,
  resolveApiService,
  toPeer,
} from "./api-services.ts";
import { requestHeaders } from "./front-proxy.ts";

/** Default and maximum duration of a request. Source: kube-apiserver --request-timeout. */
const REQUEST_TIMEOUT_MS = 60_000;

/** Matches paths of subresources whose requests have no deadline. */
const LONG_RUNNING_PATH = /\/(attach|exec|log|portforward|proxy)(\/|$)/;

function timeoutError(): StatusError {
  const message = "Timeout: request did not complete within the allotted timeout";
  return new StatusError({ code: 504, reason: "Timeout", message, details: {} });
}

function sendUnavailable(response: ServerResponse, text: string): void {
  response.writeHead(503, {
    "content-type": "text/plain; charset=utf-8",
    "x-content-type-options": "nosniff",
  });
  response.end(`${text}\n`);
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

function parseTimeout(duration: string): number {
  const parts = [...duration.matchAll(/(?<!\d)(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  const requestedMs = parts.reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * (UNITS_MS[unit ?? ""] ?? 0),
    0,
  );
  return requestedMs > 0 ? Math.min(requestedMs, REQUEST_TIMEOUT_MS) : REQUEST_TIMEOUT_MS;
}

function requestDeadline(request: IncomingMessage): AbortSignal | undefined {
  const url = new URL(request.url ?? "", "https://localhost");
  const watch = url.searchParams.get("watch");
  const isLongRunning =
    (watch !== null && watch !== "false" && watch !== "0") ||
    url.searchParams.get("follow") === "true" ||
    LONG_RUNNING_PATH.test(url.pathname);
  return isLongRunning
    ? undefined
    : AbortSignal.timeout(parseTimeout(url.searchParams.get("timeout") ?? ""));
}

/** Forwards the request. At the deadline, throws a StatusError 504, or cuts off a response that has already started. */
async function forward(forwarding: Forwarding): Promise<void> {
  const { request, response } = forwarding;
  const deadline = requestDeadline(request);
  let backendRequest: ClientRequest;
  try {
    backendRequest = await openRequest(forwarding);
  } catch (error) {
    sendUnavailable(response, `error trying to reach service: ${messageOf(error)}`);
    return;
  }
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const abort = (): void => {
    backendRequest.destroy();
    if (response.headersSent) {
      response.destroy();
    } else {
      reject(timeoutError());
    }
  };
  deadline?.addEventListener("abort", abort);
  response.on("close", () => {
    deadline?.removeEventListener("abort", abort);
    backendRequest.destroy();
    resolve(undefined);
  });
  backendRequest.on("error", (error) => {
    // After the deadline, sends nothing: `abort` has ended the response or rejected `promise`, which the caller answers with 504.
    if (deadline?.aborted === true) return;
    if (response.headersSent) {
      response.destroy();
    } else {
      sendUnavailable(
        response,
        `error trying to reach service: ${describeFailure(error, { host: "", port: 0 })}`,
      );
    }
  });
  backendRequest.on("response", (backendResponse) => {
    forwardResponse(backendResponse, response);
  });
  if (deadline?.aborted === true) {
    // The deadline passed before the listener was added, so `abort` was not called.
    abort();
  } else {
    request.pipe(backendRequest);
  }
  return promise;
}

interface ProxyDeps {
  readonly store: Store;
  readonly connections: Connections;
  readonly stop: AbortSignal;
}

async function tunnelUpgrade(forwarding: Forwarding, stop: AbortSignal): Promise<void> {
  try {
    await tunnel(forwarding, stop);
  } catch (error) {
    sendUnavailable(forwarding.response, `error trying to reach service: ${messageOf(error)}`);
  }
}

/** Proxies requests to extension API servers. An APIService with a Service takes precedence over CustomResourceDefinitions. */
export function makeAggregator(deps: ProxyDeps): Aggregator {
  return {
    serve: async (request, response, user) => {
      const apiService = findApiServiceByPath(deps.store, request.url ?? "");
      if (apiService === undefined) {
        return false;
      }
      const resolution = resolveApiService(deps.store, apiService);
      const isAvailable = textAt(findAvailableCondition(apiService), "status") === "True";
      if (!isAvailable || !resolution.isResolved) {
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
      await (isUpgrade(request) ? tunnelUpgrade(forwarding, deps.stop) : forward(forwarding));
      return true;
    },
  };
}
