// SPDX-License-Identifier: Apache-2.0
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
import { tryAddresses } from "./exchange.ts";
import type { HostPort } from "./service-address.ts";

const HOP_BY_HOP_HEADERS =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|http2-settings)$/;

/** Request headers that are not forwarded: only this server may set them, or they contain the client's credentials for this server. */
const SERVER_ONLY_HEADERS =
  /^(authorization|host|impersonate-.*|x-remote-(user|uid|group|extra-.*)|x-forwarded-uri)$/;

function endToEndHeaders(headers: IncomingHttpHeaders): [string, string | string[] | undefined][] {
  const connectionHeaders = (headers.connection ?? "")
    .split(",")
    .map((name) => name.trim().toLowerCase());
  return Object.entries(headers).filter(
    ([name]) => !HOP_BY_HOP_HEADERS.test(name) && !connectionHeaders.includes(name),
  );
}

export function forwardedHeaders({ headers }: IncomingMessage, host: string): OutgoingHttpHeaders {
  const allowedHeaders = endToEndHeaders(headers).filter(
    ([name]) => !SERVER_ONLY_HEADERS.test(name),
  );
  return {
    ...Object.fromEntries(allowedHeaders),
    ...(headers["transfer-encoding"] === undefined ? {} : { "transfer-encoding": "chunked" }),
    host,
  };
}

export function responseHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return {
    ...Object.fromEntries(endToEndHeaders(headers)),
    ...(headers.trailer === undefined ? {} : { trailer: headers.trailer }),
  };
}

export interface Forwarding {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly peer: Peer;
  readonly connections: Connections;
  readonly path: string;
  readonly headersFor: (host: string) => OutgoingHttpHeaders;
}

/** Error message for a redirect. Source: Kubernetes apimachinery, proxy.UpgradeAwareHandler. */
const REDIRECT_MESSAGE = "the backend attempted to redirect this request, which is not permitted";

/** Opens a request and waits until the TLS connection is established. Does not send the body. */
async function openConnected(options: RequestOptions): Promise<ClientRequest> {
  const backendRequest = httpsRequest(options);
  const [socket] = (await once(backendRequest, "socket")) as [Socket];
  if (!backendRequest.reusedSocket) {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    backendRequest.once("error", reject);
    socket.once("secureConnect", resolve);
    await promise;
    backendRequest.off("error", reject);
  }
  return backendRequest;
}

/** Opens a request to the peer. Throws an Error with a message for users if no connection can be established. */
export async function openRequest(
  forwarding: Forwarding,
  extraHeaders: OutgoingHttpHeaders = {},
): Promise<ClientRequest> {
  const { request, peer, connections, path, headersFor } = forwarding;
  let lastAddress: HostPort = { host: "", port: 0 };
  try {
    return await tryAddresses(peer, (address) => {
      lastAddress = address;
      return openConnected({
        ...connections.requestOptions(peer, address),
        method: request.method,
        path,
        headers: { ...headersFor(printHostPort(address)), ...extraHeaders },
      });
    });
  } catch (error) {
    throw new Error(describeFailure(error, lastAddress), { cause: error });
  }
}

/** Returns whether the response is a redirect, which is rejected: a client that follows it may send its credentials to another server. */
function isRedirect({ statusCode = 0, headers }: IncomingMessage): boolean {
  return statusCode >= 300 && statusCode < 400 && (headers.location ?? "") !== "";
}

export function forwardResponse(backendResponse: IncomingMessage, response: ServerResponse): void {
  if (isRedirect(backendResponse)) {
    backendResponse.destroy();
    response.writeHead(502).end(REDIRECT_MESSAGE);
    return;
  }
  response.writeHead(
    backendResponse.statusCode ?? 502,
    backendResponse.statusMessage,
    responseHeaders(backendResponse.headers),
  );
  response.flushHeaders();
  backendResponse.pipe(response, { end: false });
  backendResponse.on("end", () => {
    response.addTrailers(backendResponse.trailers);
    response.end();
  });
  backendResponse.on("error", () => response.destroy());
  backendResponse.on("close", () => {
    if (!backendResponse.complete) {
      response.destroy();
    }
  });
}
