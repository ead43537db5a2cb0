// SPDX-License-Identifier: Apache-2.0
// Streams a request to a backend and the response back to the client.
import { once } from "node:events";
import type {
  ClientRequest,
  IncomingHttpHeaders,
  IncomingMessage,
  OutgoingHttpHeaders,
  ServerResponse,
} from "node:http";
import { type RequestOptions, request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { type Connections, type Peer, describeFailure, printHostPort } from "./connections.ts";
import { atAnyAddress } from "./exchange.ts";
import type { HostPort } from "./service-address.ts";

/** Headers that concern one connection only. */
const HOP_BY_HOP =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|http2-settings)$/;

/** Headers that only this server may set, and credentials that are meant for it. */
const OWN =
  /^(authorization|host|impersonate-.*|x-remote-(user|uid|group|extra-.*)|x-forwarded-uri)$/;

/** Headers that concern more than one connection; `Connection` may name more that do not. */
function endToEnd(headers: IncomingHttpHeaders): [string, string | string[] | undefined][] {
  const named = (headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase());
  return Object.entries(headers).filter(
    ([name]) => !HOP_BY_HOP.test(name) && !named.includes(name),
  );
}

/** The headers of a request that is passed on to `host`, without what the client says of users. */
export function forwardedHeaders({ headers }: IncomingMessage, host: string): OutgoingHttpHeaders {
  const kept = endToEnd(headers).filter(([name]) => !OWN.test(name));
  return {
    ...Object.fromEntries(kept),
    ...(headers["transfer-encoding"] === undefined ? {} : { "transfer-encoding": "chunked" }),
    host,
  };
}

/** The headers of an answer that is passed back. Its trailers are announced as they were. */
export function responseHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return {
    ...Object.fromEntries(endToEnd(headers)),
    ...(headers.trailer === undefined ? {} : { trailer: headers.trailer }),
  };
}

/** One request, and as what it goes where. */
export interface Forwarding {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly peer: Peer;
  readonly connections: Connections;
  /** Path and query there. */
  readonly path: string;
  /** The headers there, for a server at `host`. */
  readonly headersFor: (host: string) => OutgoingHttpHeaders;
}

/** Source: Kubernetes apimachinery, proxy.UpgradeAwareHandler. */
const REDIRECTED = "the backend attempted to redirect this request, which is not permitted";

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
  const { request, peer, connections, path, headersFor } = forwarding;
  let last: HostPort = { host: "", port: 0 };
  try {
    return await atAnyAddress(peer, (at) => {
      last = at;
      return openAt({
        ...connections.optionsFor(peer, at),
        method: request.method,
        path,
        headers: { ...headersFor(printHostPort(at)), ...more },
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
export function forwardAnswer(answer: IncomingMessage, response: ServerResponse): void {
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
