// SPDX-License-Identifier: Apache-2.0
// A stream that is asked for like anything else: with a request that does not become a WebSocket.
import { toFailureAnswer } from "../http/answers.ts";
import type { CallHandler } from "./call.ts";

/** Answers 400, in the words of KubeVirt's library. Source: gorilla/websocket server.go */
export const streamOnly: CallHandler = () => {
  const message =
    "websocket: the client is not using the websocket protocol: 'upgrade' token not found in 'Connection' header";
  return Promise.resolve(toFailureAnswer({ code: 400, message }));
};
