// SPDX-License-Identifier: Apache-2.0
// Proxy for requests to aggregated API servers.
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "@patchbay/core/errors";
import { type Connections, describeFailure } from "../backend/connections.ts";
import { type Forwarding, forwardAnswer, openRequest } from "../backend/forward-request.ts";
import { isUpgrade, tunnel } from "../backend/tunnel.ts";
import type { Aggregator } from "../http/app.ts";
import { StatusError } from "../meta/status.ts";
import { textAt } from "../objects/json.ts";
import type { Store } from "../storage/store.ts";
import { availableCondition, findByPath, resolveApiService, toPeer } from "./api-services.ts";
import { requestHeaders } from "./front-proxy.ts";

/** Source: kube-apiserver --request-timeout. */
const REQUEST_TIMEOUT_MS = 60_000;

/** Subresources whose requests last as long as somebody looks. */
const LONG_RUNNING = /\/(attach|exec|log|portforward|proxy)(\/|$)/;

function timedOut(): StatusError {
  const message = "Timeout: request did not complete within the allotted timeout";
  return new StatusError({ code: 504, reason: "Timeout", message, details: {} });
}

/** Answers as a proxy does that reaches nobody. */
function sendUnavailable(response: ServerResponse, text: string): void {
  response.writeHead(503, {
    "content-type": "text/plain; charset=utf-8",
    "x-content-type-options": "nosniff",
  });
  response.end(`${text}\n`);
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Milliseconds of a duration such as `1m30s`, the usual timeout at most. */
function timeoutOf(duration: string): number {
  const parts = [...duration.matchAll(/(?<!\d)(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  const asked = parts.reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * (UNITS_MS[unit ?? ""] ?? 0),
    0,
  );
  return asked > 0 ? Math.min(asked, REQUEST_TIMEOUT_MS) : REQUEST_TIMEOUT_MS;
}

/** The deadline of a request; undefined where it may last. */
function deadlineOf(request: IncomingMessage): AbortSignal | undefined {
  const url = new URL(request.url ?? "", "https://localhost");
  const watch = url.searchParams.get("watch");
  const lasts =
    (watch !== null && watch !== "false" && watch !== "0") ||
    url.searchParams.get("follow") === "true" ||
    LONG_RUNNING.test(url.pathname);
  return lasts ? undefined : AbortSignal.timeout(timeoutOf(url.searchParams.get("timeout") ?? ""));
}

/** Passes one request on and its answer back. Throws a StatusError 504. */
async function forward(forwarding: Forwarding): Promise<void> {
  const { request, response } = forwarding;
  const deadline = deadlineOf(request);
  let outgoing: ClientRequest;
  try {
    outgoing = await openRequest(forwarding);
  } catch (error) {
    sendUnavailable(response, `error trying to reach service: ${messageOf(error)}`);
    return;
  }
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const giveUp = (): void => {
    outgoing.destroy();
    if (response.headersSent) {
      response.destroy();
    } else {
      reject(timedOut());
    }
  };
  deadline?.addEventListener("abort", giveUp);
  response.on("close", () => {
    deadline?.removeEventListener("abort", giveUp);
    outgoing.destroy();
    resolve(undefined);
  });
  outgoing.on("error", (error) => {
    // At the deadline the client is answered already, and destroying its response would cut that answer off.
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
  outgoing.on("response", (answer) => {
    forwardAnswer(answer, response);
  });
  if (deadline?.aborted === true) {
    // The time was up before there was a connection, so no event follows.
    giveUp();
  } else {
    request.pipe(outgoing);
  }
  return promise;
}

/** Where APIServices and the Services behind them are found, and how their servers are reached. */
interface ProxyDeps {
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
