// SPDX-License-Identifier: Apache-2.0
// Binds each route to its handler. Contains the handlers for version and health, and the handlers that reject requests.
import { KUBEVIRTS } from "@patchbay/api";
import { messageOf } from "@patchbay/base";
import { configHealth } from "@patchbay/daemon";
import { RELAY_CERTIFICATE } from "@patchbay/core/guest";
import type { Deps } from "../deps.ts";
import {
  addIface,
  removeIface,
  evacuateCancel,
  migrate,
  restart,
  start,
  stop,
} from "./change-vm.ts";
import { requestGuest, examine } from "./guest.ts";
import { toFailureAnswer, type CallHandler } from "../http/calls.ts";
import { expandSpec, expandVmSpec } from "./expand-spec.ts";
import { relayCertificate } from "./relay-certificate.ts";
import { screenshot } from "../screen/screenshot.ts";
import {
  namespacePath,
  ROUTES,
  subresourcePath,
  type GENERAL_ROUTES,
  type NAMESPACE_ROUTES,
  type Resource,
  type Route,
  type SERVED_ROUTES,
} from "./table.ts";

/** Returns Patchbay's version as KubeVirt's version.Info, because virtctl requests the server's version after each failed command. */
function version({ release }: Deps): CallHandler {
  const body = { gitVersion: release };
  return () => Promise.resolve({ code: 200, body });
}

/** Responds with 200 if the API server is reachable, otherwise with 500. Source: KubeVirt pkg/healthz. */
function healthz(deps: Deps): CallHandler {
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

/** Responds with 400. virtctl sends this request only if it needs a default image, which Patchbay lacks. Source: KubeVirt GetGsInfo. */
const guestfs: CallHandler = () => {
  const message =
    "Patchbay has no image of libguestfs; nothing was created. Name an image: virtctl guestfs --image quay.io/kubevirt/libguestfs-tools:TAG CLAIM, and add --kvm=false if nodes have no usable /dev/kvm";
  return Promise.resolve(toFailureAnswer({ code: 400, message }));
};

/** Handles routes of features that Patchbay lacks. Responds with 400, as KubeVirt does if a feature gate is disabled. */
function rejectFeature(feature: string): CallHandler {
  const message = `Patchbay does not have ${feature}; nothing was changed`;
  return () => Promise.resolve(toFailureAnswer({ code: 400, message }));
}

/** Rejects a stream request that does not request a WebSocket upgrade. The message is KubeVirt's. Source: gorilla/websocket server.go */
const streamOnly: CallHandler = () => {
  const message =
    "websocket: the client is not using the websocket protocol: 'upgrade' token not found in 'Connection' header";
  return Promise.resolve(toFailureAnswer({ code: 400, message }));
};

type Handlers<T> = { readonly [Name in keyof T]: CallHandler };

/** Routes for port forwarding. serve-streams.ts handles WebSocket upgrades of these routes. */
const FORWARDING = {
  "portforward/{port}": streamOnly,
  "portforward/{port}/{protocol}": streamOnly,
};

function buildSubresourceHandlers(deps: Deps): {
  readonly [R in Resource]: Handlers<(typeof SERVED_ROUTES)[R]>;
} {
  return {
    virtualmachines: {
      addinterface: addIface(deps, "vm"),
      "evacuate/cancel": evacuateCancel(deps, "vm"),
      "expand-spec": expandSpec(deps),
      migrate: migrate(deps),
      ...FORWARDING,
      removeinterface: removeIface(deps, "vm"),
      restart: restart(deps),
      start: start(deps),
      stop: stop(deps),
    },
    virtualmachineinstances: {
      addinterface: addIface(deps, "vmi"),
      capture: streamOnly,
      console: streamOnly,
      doctor: examine(deps),
      "evacuate/cancel": evacuateCancel(deps, "vmi"),
      filesystemlist: requestGuest(deps, "filesystemlist"),
      guestosinfo: requestGuest(deps, "guestosinfo"),
      interfacetraffic: requestGuest(deps, "interfacetraffic"),
      pause: requestGuest(deps, "pause"),
      ...FORWARDING,
      removeinterface: removeIface(deps, "vmi"),
      reset: requestGuest(deps, "reset"),
      softreboot: requestGuest(deps, "softreboot"),
      unpause: requestGuest(deps, "unpause"),
      userlist: requestGuest(deps, "userlist"),
      vnc: streamOnly,
      "vnc/screenshot": screenshot(deps),
    },
  };
}

function buildGeneralHandlers(deps: Deps): Handlers<typeof GENERAL_ROUTES> {
  return {
    guestfs,
    healthz: healthz(deps),
    [RELAY_CERTIFICATE]: relayCertificate(deps),
    version: version(deps),
  };
}

function buildNamespaceHandlers(deps: Deps): Handlers<typeof NAMESPACE_ROUTES> {
  return { "expand-vm-spec": expandVmSpec(deps) };
}

export interface BoundRoute extends Route {
  readonly handle: CallHandler;
}

export function bindRoutes(deps: Deps): readonly BoundRoute[] {
  const handlers = new Map<string, CallHandler>([
    ...Object.entries(buildSubresourceHandlers(deps)).flatMap(([resource, subresourceHandlers]) =>
      Object.entries(subresourceHandlers).map(
        ([name, handle]) => [subresourcePath(resource, name), handle] as const,
      ),
    ),
    ...Object.entries(buildNamespaceHandlers(deps)).map(
      ([name, handle]) => [namespacePath(name), handle] as const,
    ),
    ...Object.entries(buildGeneralHandlers(deps)),
  ]);
  return ROUTES.map((route) => ({
    ...route,
    handle: handlers.get(route.path) ?? rejectFeature(route.description),
  }));
}
