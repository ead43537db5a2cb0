// SPDX-License-Identifier: Apache-2.0
import { type RequestOptions, request } from "node:https";
import type { OutgoingHttpHeaders } from "node:http";
import {
  type Connections,
  type Peer,
  errorCode,
  describeFailure,
  isConnectFailure,
} from "./connections.ts";
import type { HostPort } from "./service-address.ts";

const RESPONSE_MAX_BYTES = 16 * 1024 * 1024;

interface BackendRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly text?: string;
  readonly timeoutMs: number;
}

export interface BackendResponse {
  readonly code: number;
  readonly contentType: string;
  readonly text: string;
}

async function readAll(response: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    bytes += chunk.length;
    if (bytes > RESPONSE_MAX_BYTES) {
      throw new Error("the response is too long");
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Sends the request. Retries if the backend has closed an idle connection that the request reused. */
function sendRequest(options: RequestOptions, text: string | undefined): Promise<BackendResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<BackendResponse>();
  const backendRequest = request(options);
  backendRequest.on("error", (error) => {
    if (backendRequest.reusedSocket && errorCode(error) === "ECONNRESET") {
      sendRequest(options, text).then(resolve, reject);
    } else {
      reject(error);
    }
  });
  backendRequest.on("response", (response) => {
    readAll(response)
      .then((responseText) => {
        resolve({
          code: response.statusCode ?? 0,
          contentType: response.headers["content-type"] ?? "",
          text: responseText,
        });
      })
      .catch(reject);
  });
  backendRequest.end(text);
  return promise;
}

export async function tryAddresses<T>(
  peer: Peer,
  attempt: (address: HostPort) => Promise<T>,
): Promise<T> {
  let failure: unknown = new Error("no address");
  for (const address of peer.addresses) {
    try {
      return await attempt(address);
    } catch (error) {
      failure = error;
      if (!isConnectFailure(error)) {
        throw error;
      }
    }
  }
  throw failure;
}

/** Sends the request to the peer. Throws an Error with a message for users if the peer does not respond. */
export async function exchange(
  peer: Peer,
  backendRequest: BackendRequest,
  connections: Connections,
): Promise<BackendResponse> {
  const signal = AbortSignal.timeout(backendRequest.timeoutMs);
  const { method, path, headers, text } = backendRequest;
  let lastAddress: HostPort = { host: "", port: 0 };
  try {
    return await tryAddresses(peer, (address) => {
      lastAddress = address;
      const options = connections.requestOptions(peer, address);
      return sendRequest({ ...options, method, path, headers, signal }, text);
    });
  } catch (error) {
    const reason = signal.aborted
      ? "context deadline exceeded"
      : describeFailure(error, lastAddress);
    throw new Error(reason, { cause: error });
  }
}
