// SPDX-License-Identifier: Apache-2.0
// Which module does a command's work? Each is loaded when its command runs.
import type { CommandModule } from "../context.ts";

const MODULES: Readonly<Record<string, () => Promise<CommandModule>>> = {
  up: () => import("./machine/up.ts"),
  down: () => import("./machine/down.ts"),
  apiserver: () => import("./machine/apiserver.ts"),
  restore: () => import("./machine/restore.ts"),
  "image add": () => import("./images/image-add.ts"),
  "image list": () => import("./images/image-list.ts"),
  "image remove": () => import("./images/image-remove.ts"),
  addinterface: () => import("./interfaces/add-interface.ts"),
  removeinterface: () => import("./interfaces/remove-interface.ts"),
  "get interfaces": () => import("./interfaces/get-interfaces.ts"),
  explain: () => import("./interfaces/explain.ts"),
  start: () => import("./power/start.ts"),
  stop: () => import("./power/stop.ts"),
  restart: () => import("./power/restart.ts"),
  console: () => import("./console/console.ts"),
  complete: () => import("./shell/complete.ts"),
  completion: () => import("./shell/completion.ts"),
  version: () => import("./shell/version.ts"),
};

/** Loads the module of the command of that name, as the table of commands has it. */
export async function loadCommand(name: string): Promise<CommandModule> {
  const load = MODULES[name];
  if (load === undefined) throw new RangeError(`command ${name} has no module`);
  return load();
}
