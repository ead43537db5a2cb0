// SPDX-License-Identifier: Apache-2.0
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
import type { CallHandler } from "../http/calls.ts";
import { expandSpec, expandVmSpec } from "./expand-spec.ts";
import { guestfs, healthz, version, rejectFeature, streamOnly } from "./general.ts";
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
