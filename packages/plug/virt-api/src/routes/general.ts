// SPDX-License-Identifier: Apache-2.0
// What is asked of the installation and of no VM: its version, whether it is well, and its image of libguestfs.
import { KUBEVIRTS } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import { configHealth } from "@patchbay/daemon";
import { toFailureAnswer, type CallHandler } from "../http/answers.ts";
import type { Deps } from "../deps.ts";

/** Answers as KubeVirt's version.Info, with Patchbay's own version. virtctl asks after each failure. */
export function version({ release }: Deps): CallHandler {
  const body = { gitVersion: release };
  return () => Promise.resolve({ code: 200, body });
}

/** Answers 200 where the API server answers, 500 where it does not. Source: KubeVirt pkg/healthz. */
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

/** Answers 400: clients that name an image themselves need not ask. Source: KubeVirt GetGsInfo. */
export const guestfs: CallHandler = () => {
  const message =
    "Patchbay does not have an image of libguestfs; nothing was made. Name one: virtctl guestfs --image quay.io/kubevirt/libguestfs-tools:TAG CLAIM, with --kvm=false where nodes have no usable /dev/kvm";
  return Promise.resolve(toFailureAnswer({ code: 400, message }));
};

/** Answers 400, as KubeVirt does where a feature gate is off; reads nothing and changes nothing. */
export function refused(feature: string): CallHandler {
  const message = `Patchbay does not have ${feature}; nothing was changed`;
  return () => Promise.resolve(toFailureAnswer({ code: 400, message }));
}

/** Answers 400, in the words of KubeVirt's library. Source: gorilla/websocket server.go */
export const streamOnly: CallHandler = () => {
  const message =
    "websocket: the client is not using the websocket protocol: 'upgrade' token not found in 'Connection' header";
  return Promise.resolve(toFailureAnswer({ code: 400, message }));
};
