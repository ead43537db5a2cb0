// SPDX-License-Identifier: Apache-2.0
// Arguments of services that an operator has added or changed, and that a repeated `install` keeps. Pure.
import { isJsonObject, type JsonObject } from "@patchbay/api";
import { POD_CREATION_FLAGS } from "./pod-creation.ts";
import { FLAGS_OF_SETTINGS } from "./settings.ts";

/** Flags that `install` decides: by its own options, or together with ports and mounts of the pod. */
const OWN_FLAGS: ReadonlySet<string> = new Set([
  ...Object.values(FLAGS_OF_SETTINGS).map((flag) => flag.replace("=", "")),
  ...POD_CREATION_FLAGS,
]);

/** Arguments by flag. A flag can repeat, and its value can be the next argument. */
function groupByFlag(args: readonly unknown[]): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, readonly string[]>();
  let flag = "";
  for (const arg of args) {
    if (typeof arg !== "string") continue;
    if (arg.startsWith("-")) flag = arg.split("=", 1)[0] ?? arg;
    groups.set(flag, [...(groups.get(flag) ?? []), arg]);
  }
  return groups;
}

/** The cluster's arguments in their order, with the manifest's values of own flags, then the manifest's new arguments. */
export function mergeArguments(
  found: readonly unknown[],
  wanted: readonly unknown[],
): readonly string[] {
  const current = groupByFlag(found);
  const target = groupByFlag(wanted);
  const kept = [...current].flatMap(([flag, args]) =>
    OWN_FLAGS.has(flag) ? (target.get(flag) ?? []) : args,
  );
  const added = [...target].flatMap(([flag, args]) => (current.has(flag) ? [] : args));
  return [...kept, ...added];
}

function listIn(object: JsonObject, name: string): readonly unknown[] {
  const value = object[name];
  return Array.isArray(value) ? value : [];
}

function objectIn(object: JsonObject, name: string): JsonObject {
  const value = object[name];
  return isJsonObject(value) ? value : {};
}

/** The specification of a workload with the arguments that the cluster's containers of the same names have. */
export function keepArguments(found: JsonObject, wanted: JsonObject): JsonObject {
  const template = objectIn(wanted, "template");
  const pod = objectIn(template, "spec");
  const before = listIn(objectIn(objectIn(found, "template"), "spec"), "containers");
  const containers = listIn(pod, "containers").map((container) => {
    if (!isJsonObject(container)) return container;
    const former = before
      .filter(isJsonObject)
      .find(({ name }) => name !== undefined && name === container["name"]);
    if (former === undefined) return container;
    const args = mergeArguments(listIn(former, "args"), listIn(container, "args"));
    return args.length === 0 ? container : { ...container, args };
  });
  return { ...wanted, template: { ...template, spec: { ...pod, containers } } };
}

/** Arguments that one workload has and the other has not, such as `- net-agent: --mode=alone`. */
export function argumentChanges(before: JsonObject, after: JsonObject): readonly string[] {
  const argumentsOf = (spec: JsonObject): readonly string[] =>
    listIn(objectIn(objectIn(spec, "template"), "spec"), "containers")
      .filter(isJsonObject)
      .flatMap((container) =>
        listIn(container, "args").map((arg) => `${String(container["name"])}: ${String(arg)}`),
      );
  const [old, current] = [argumentsOf(before), argumentsOf(after)];
  return [
    ...old.filter((arg) => !current.includes(arg)).map((arg) => `- ${arg}`),
    ...current.filter((arg) => !old.includes(arg)).map((arg) => `+ ${arg}`),
  ];
}
