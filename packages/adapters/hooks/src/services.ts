// SPDX-License-Identifier: Apache-2.0
// The protocol's services, as the .proto files beside the code name them.
import { fileURLToPath } from "node:url";
import type { ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { HookVersion } from "@patchbay/core/ports";

/** Name of a service on the wire. */
type ServiceName = "kubevirt.hooks.info.Info" | `kubevirt.hooks.${HookVersion}.Callbacks`;

function load(file: string, name: ServiceName): ServiceDefinition {
  const path = fileURLToPath(new URL(`../proto/${file}`, import.meta.url));
  return loadSync(path, { defaults: true })[name] as ServiceDefinition; // by its name a service
}

/** What a hook says of itself. */
export function loadInfo(): ServiceDefinition {
  return load("info.proto", "kubevirt.hooks.info.Info");
}

/** What it is asked. */
export function loadCallbacks(version: HookVersion): ServiceDefinition {
  return load(`${version}.proto`, `kubevirt.hooks.${version}.Callbacks`);
}
