// SPDX-License-Identifier: Apache-2.0
// Routes for version and health, and KubeVirt's routes for features that Patchbay lacks. The latter routes respond with an error.
import { KUBEVIRTS } from "@patchbay/api";
import { messageOf } from "@patchbay/base";
import { configHealth } from "@patchbay/daemon";
import { toFailureAnswer, type CallHandler } from "../http/calls.ts";
import type { Deps } from "../deps.ts";

/** Returns Patchbay's version in the form of KubeVirt's version.Info. virtctl requests the version after each failure. */
export function version({ release }: Deps): CallHandler {
  const body = { gitVersion: release };
  return () => Promise.resolve({ code: 200, body });
}

/** Responds with 200 if the API server is reachable, otherwise with 500. Source: KubeVirt pkg/healthz. */
export function healthz(deps: Deps): CallHandler {
  return async () => {
    try {
      await deps.store.list(KUBEVIRTS);
      const { code, body } = configHealth(true, deps.configVersion());
      return { code, body: { ...body, apiserver: { ...body.apiserver, version: deps.release } } };
    } catch (error) {
      const body = { apiserver: { connectivity: "failed", error: messageOf(error) } };
      return { code: 500, body };
    }
  };
}

/** Responds with 400. virtctl sends this request only if the user specifies no image. Source: KubeVirt GetGsInfo. */
export const guestfs: CallHandler = () => {
  const message =
    "Patchbay has no image of libguestfs; nothing was created. Name an image: virtctl guestfs --image quay.io/kubevirt/libguestfs-tools:TAG CLAIM, and add --kvm=false if nodes have no usable /dev/kvm";
  return Promise.resolve(toFailureAnswer({ code: 400, message }));
};

/** Handles routes of features that Patchbay lacks. Responds with 400, as KubeVirt does if a feature gate is disabled. */
export function rejectFeature(feature: string): CallHandler {
  const message = `Patchbay does not have ${feature}; nothing was changed`;
  return () => Promise.resolve(toFailureAnswer({ code: 400, message }));
}

/** Rejects a stream request that does not request a WebSocket upgrade. The message is KubeVirt's. Source: gorilla/websocket server.go */
export const streamOnly: CallHandler = () => {
  const message =
    "websocket: the client is not using the websocket protocol: 'upgrade' token not found in 'Connection' header";
  return Promise.resolve(toFailureAnswer({ code: 400, message }));
};
