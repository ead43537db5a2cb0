// SPDX-License-Identifier: Apache-2.0
// Passes one request on to an aggregated server, and its answer back, as they stream.
import type {
  ClientRequest,
  IncomingMessage,
  OutgoingHttpHeaders,
  ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { type RequestOptions, request as httpsRequest } from "node:https";
import { once } from "node:events";
import { messageOf } from "@patchbay/core/errors";
import type { User } from "../auth/user.ts";
import { type Connections, type Peer } from "../backend/connections.ts";
import { atAnyAddress } from "../backend/exchange.ts";
import { describeFailure, printHostPort } from "../backend/failure.ts";
import type { HostPort } from "../backend/service-address.ts";
import { StatusError } from "../meta/status.ts";
import { requestHeaders, responseHeaders } from "./front-proxy-headers.ts";

/** One request and where it goes. */
export interface Forwarding {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly user: User;
  readonly peer: Peer;
  readonly connections: Connections;
}

/** Source: kube-apiserver --request-timeout. */
const REQUEST_TIMEOUT_MS = 60_000;

/** Subresources whose requests last as long as somebody looks. */
const LONG_RUNNING = /\/(attach|exec|log|portforward|proxy)(\/|$)/;

function timedOut(): StatusError {
  const message = "Timeout: request did not complete within the allotted timeout";
  return new StatusError({ code: 504, reason: "Timeout", message, details: {} });
}

/** Answers as a proxy does that reaches nobody. */
export function sendUnavailable(response: ServerResponse, text: string): void {
  response.writeHead(503, {
    "content-type": "text/plain; charset=utf-8",
    "x-content-type-options": "nosniff",
  });
  response.end(`${text}\n`);
}

/** Source: Kubernetes apimachinery, proxy.UpgradeAwareHandler. */
const REDIRECTED = "the backend attempted to redirect this request, which is not permitted";

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Milliseconds of a duration such as `1m30s`, the usual timeout at most. */
function timeoutOf(duration: string): number {
  const parts = [...duration.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
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

/** Opens a request and waits until there is a connection. Nothing of the body has been sent then. */
async function openAt(options: RequestOptions): Promise<ClientRequest> {
  const outgoing = httpsRequest(options);
  // The event of a request has its socket.
  const [socket] = (await once(outgoing, "socket")) as [Socket];
  if (!outgoing.reusedSocket) {
    // A request without a connection fails with the connection.
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    outgoing.once("error", reject);
    socket.once("secureConnect", resolve);
    await promise;
    outgoing.off("error", reject);
  }
  return outgoing;
}

/** A request to the first address that answers; `more`: headers beside the usual. Throws an Error with a text for people. */
export async function openRequest(
  forwarding: Forwarding,
  more: OutgoingHttpHeaders = {},
): Promise<ClientRequest> {
  const { request, user, peer, connections } = forwarding;
  let last: HostPort = { host: "", port: 0 };
  try {
    return await atAnyAddress(peer, (at) => {
      last = at;
      return openAt({
        ...connections.optionsFor(peer, at),
        method: request.method,
        path: request.url,
        headers: { ...requestHeaders(request, user, printHostPort(at)), ...more },
      });
    });
  } catch (error) {
    throw new Error(describeFailure(error, last), { cause: error });
  }
}

/** Whether the answer sends the client elsewhere: it would take its credentials there. */
function isRedirect({ statusCode = 0, headers }: IncomingMessage): boolean {
  return statusCode >= 300 && statusCode < 400 && (headers.location ?? "") !== "";
}

/** Passes an answer back: body and trailers as they come. A redirection is not passed on. */
export function passBack(answer: IncomingMessage, response: ServerResponse): void {
  if (isRedirect(answer)) {
    answer.destroy();
    response.writeHead(502).end(REDIRECTED);
    return;
  }
  response.writeHead(
    answer.statusCode ?? 502,
    answer.statusMessage,
    responseHeaders(answer.headers),
  );
  response.flushHeaders();
  answer.pipe(response, { end: false });
  answer.on("end", () => {
    response.addTrailers(answer.trailers);
    response.end();
  });
  answer.on("error", () => response.destroy());
  answer.on("close", () => {
    if (!answer.complete) {
      response.destroy();
    }
  });
}

/** Passes one request on and its answer back. Throws a StatusError 504. */
export async function forward(forwarding: Forwarding): Promise<void> {
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
    if (response.headersSent) {
      response.destroy();
    } else if (deadline?.aborted !== true) {
      sendUnavailable(
        response,
        `error trying to reach service: ${describeFailure(error, { host: "", port: 0 })}`,
      );
    }
  });
  outgoing.on("response", (answer) => {
    passBack(answer, response);
  });
  request.pipe(outgoing);
  return promise;
}
