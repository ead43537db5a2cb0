// SPDX-License-Identifier: Apache-2.0
// Which CNI version to speak with plugins. Source: CNI SPEC 1.1 section 1, "Version considerations".
import { isJsonObject } from "@patchbay/api";

/** Versions that this runtime speaks, oldest first. Source: CNI SPEC 1.1 "Released versions". */
const KNOWN_VERSIONS: readonly string[] = [
  "0.1.0",
  "0.2.0",
  "0.3.0",
  "0.3.1",
  "0.4.0",
  "1.0.0",
  "1.1.0",
];

/** What a configuration without `cniVersion` means. Source: CNI pkg/version ConfigDecoder. */
export const VERSION_WHEN_ABSENT = "0.1.0";

/** Whether this runtime speaks the version. */
export function isKnownVersion(version: string): boolean {
  return KNOWN_VERSIONS.includes(version);
}

/** Whether `version` is `minimum` or later; both must be known. */
export function isAtLeast(version: string, minimum: string): boolean {
  return KNOWN_VERSIONS.indexOf(version) >= KNOWN_VERSIONS.indexOf(minimum);
}

/** The newest of `offered` that this runtime knows. */
export function findNewestVersion(offered: readonly string[]): string | undefined {
  return KNOWN_VERSIONS.findLast((version) => offered.includes(version));
}

/**
 * The versions that an answer to VERSION names; undefined when it is none, and then nothing is known of the plugin.
 * Source: CNI SPEC 1.1 section 4; CNI pkg/version PluginDecoder, where 0.2.0 alone means 0.1.0 too.
 */
export function parseVersions(answer: unknown): readonly string[] | undefined {
  if (!isJsonObject(answer)) return undefined;
  const { cniVersion, supportedVersions } = answer;
  if (typeof cniVersion !== "string" || cniVersion === "") return undefined;
  if (Array.isArray(supportedVersions) && supportedVersions.length > 0) {
    return supportedVersions.filter((version) => typeof version === "string");
  }
  return cniVersion === "0.2.0" ? ["0.1.0", "0.2.0"] : undefined;
}

/**
 * The newest version not above `wanted` that every plugin supports, as far as it says so; `wanted` itself when there
 * is none, so that the plugin says what it does not understand.
 */
export function negotiateVersion(
  wanted: string,
  supported: readonly (readonly string[] | undefined)[],
): string {
  const common = KNOWN_VERSIONS.filter(
    (version) =>
      isAtLeast(wanted, version) &&
      supported.every((versions) => versions?.includes(version) !== false),
  );
  return common.at(-1) ?? wanted;
}
