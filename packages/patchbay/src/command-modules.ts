// SPDX-License-Identifier: Apache-2.0
// Which module does a command's work? Each is loaded when its command runs.
import type { CommandModule } from "./context.ts";

const MODULES: Readonly<Record<string, () => Promise<CommandModule>>> = {
  up: () => import("./commands/up.ts"),
  down: () => import("./commands/down.ts"),
  apiserver: () => import("./commands/apiserver.ts"),
  restore: () => import("./commands/restore.ts"),
  "image add": () => import("./commands/image-add.ts"),
  "image list": () => import("./commands/image-list.ts"),
  "image remove": () => import("./commands/image-remove.ts"),
  addinterface: () => import("./commands/add-interface.ts"),
  removeinterface: () => import("./commands/remove-interface.ts"),
  "get interfaces": () => import("./commands/get-interfaces.ts"),
  explain: () => import("./commands/explain.ts"),
  start: () => import("./commands/start.ts"),
  stop: () => import("./commands/stop.ts"),
  restart: () => import("./commands/restart.ts"),
  console: () => import("./commands/console.ts"),
  complete: () => import("./commands/complete.ts"),
  completion: () => import("./commands/completion.ts"),
  version: () => import("./commands/version.ts"),
};

/** Loads the module of the command of that name, as the table of commands has it. */
export async function loadCommand(name: string): Promise<CommandModule> {
  const load = MODULES[name];
  if (load === undefined) throw new RangeError(`command ${name} has no module`);
  return load();
}
