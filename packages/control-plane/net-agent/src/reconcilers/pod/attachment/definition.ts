// SPDX-License-Identifier: Apache-2.0
// Reads a network's configuration from `spec.config` or from a file of the node. Source: NPWG 1.3 section 3.4.1.
import { parseNetworkConfig, type DefinitionSearch } from "@patchbay/cni";
import { AppError, isAppError } from "@patchbay/base";
import { withoutRuntimeMembers } from "@patchbay/core/nics";
import { parseKey } from "@patchbay/kube";
import type { NetworkConfigList } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";

const LISTED_NAMES_MAX = 16;

function describeSearch({
  networkNames: names,
  unreadableFiles: unreadable,
}: DefinitionSearch): string {
  const listed = names.slice(0, LISTED_NAMES_MAX).join(", ");
  const more =
    names.length > LISTED_NAMES_MAX ? ` and ${String(names.length - LISTED_NAMES_MAX)} more` : "";
  const summary =
    names.length === 0 ? "no file there defines a network" : `files there define ${listed}${more}`;
  return [summary, ...unreadable.slice(0, LISTED_NAMES_MAX)].join("; ");
}

interface ConfigText {
  readonly text: string;
  readonly source: string;
}

type Definitions = Pick<Deps, "nads" | "definitionFiles" | "policy">;

export function isTrusted(network: string, { policy }: Pick<Deps, "policy">): boolean {
  return policy.current().trustedNamespaces.includes(parseKey(network).namespace ?? "");
}

export function withoutForgedInput(
  network: string,
  config: NetworkConfigList,
  deps: Pick<Deps, "policy">,
): NetworkConfigList {
  return isTrusted(network, deps) ? config : withoutRuntimeMembers(config);
}

async function findText(network: string, deps: Definitions): Promise<ConfigText> {
  const { namespace = "", name } = parseKey(network);
  const nad = deps.nads.find({ namespace, name });
  if (nad === undefined) throw new AppError("CNI_NETWORK_NOT_FOUND", { network });
  const inlineConfig = nad.spec?.config ?? "";
  if (inlineConfig !== "") return { text: inlineConfig, source: "spec.config" };
  const { directory } = deps.definitionFiles;
  const search = await deps.definitionFiles.find(name);
  if (search.file !== undefined) return { text: search.file.text, source: search.file.path };
  const searchSummary = describeSearch(search);
  throw new AppError("CNI_DEFINITION_FILE_MISSING", {
    network,
    directory,
    name,
    seen: searchSummary,
  });
}

export async function readWrittenDefinition(
  network: string,
  deps: Definitions,
): Promise<NetworkConfigList> {
  const { text, source } = await findText(network, deps);
  const parsed = parseNetworkConfig(text, parseKey(network).name, source);
  if (parsed.ok) return parsed.config;
  const reason = parsed.causes.map((cause) => `${cause.field}: ${cause.message}`).join("; ");
  throw new AppError("CNI_CONFIG_INVALID", { network, reason });
}

/** @throws AppError with CNI_NETWORK_NOT_FOUND, CNI_DEFINITION_FILE_MISSING, CNI_CONFIG_INVALID */
export async function readDefinition(
  network: string,
  deps: Definitions,
): Promise<NetworkConfigList> {
  return withoutForgedInput(network, await readWrittenDefinition(network, deps), deps);
}

export function isUnusableDefinition(error: unknown): boolean {
  return (
    isAppError(error, "CNI_NETWORK_NOT_FOUND") ||
    isAppError(error, "CNI_DEFINITION_FILE_MISSING") ||
    isAppError(error, "CNI_CONFIG_INVALID")
  );
}
