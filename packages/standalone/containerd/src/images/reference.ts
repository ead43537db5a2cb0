// SPDX-License-Identifier: Apache-2.0
// Parses and expands image references. Source: distribution/reference.
import { AppError } from "@patchbay/base";

const DOMAIN_PATTERN = /^(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+:\d+)$/;
const PATH_PART_PATTERN = /^[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*$/;
const TAG_PATTERN = /^\w[\w.-]{0,127}$/;
const DIGEST_PATTERN = /^sha256:[0-9a-f]{64}$/;
/** Maximum length of an image name without tag and digest, in characters. */
const NAME_MAX_LENGTH = 255;
const DEFAULT_DOMAIN = "docker.io";
const OFFICIAL_PATH = "library";

interface ReferenceParts {
  readonly name: string;
  readonly tag: string | undefined;
  readonly digest: string | undefined;
}

function splitReference(reference: string): ReferenceParts {
  const [nameAndTag = "", ...digests] = reference.split("@");
  const colon = nameAndTag.lastIndexOf(":");
  const hasTag = colon > nameAndTag.lastIndexOf("/");
  return {
    name: hasTag ? nameAndTag.slice(0, colon) : nameAndTag,
    tag: hasTag ? nameAndTag.slice(colon + 1) : undefined,
    digest: digests.length === 0 ? undefined : digests.join("@"),
  };
}

function expandName(name: string): readonly string[] {
  const parts = name.split("/");
  const [firstPart = ""] = parts;
  if (parts.length > 1 && DOMAIN_PATTERN.test(firstPart)) return parts;
  return parts.length === 1 ? [DEFAULT_DOMAIN, OFFICIAL_PATH, name] : [DEFAULT_DOMAIN, ...parts];
}

/** Expands a reference: `alpine` becomes `docker.io/library/alpine:latest`. @throws AppError with IMAGE_NAME_INVALID */
export function fullReference(reference: string): string {
  const { name, tag, digest } = splitReference(reference);
  const parts = expandName(name);
  const isValid =
    parts.slice(1).every((part) => PATH_PART_PATTERN.test(part)) &&
    parts.join("/").length <= NAME_MAX_LENGTH &&
    (tag === undefined || TAG_PATTERN.test(tag)) &&
    (digest === undefined || DIGEST_PATTERN.test(digest));
  if (!isValid) throw new AppError("IMAGE_NAME_INVALID", { image: reference });
  const suffix = digest === undefined ? `:${tag ?? "latest"}` : `@${digest}`;
  return `${parts.join("/")}${suffix}`;
}

/** Returns a full reference without its tag and digest. */
export function parseRepository(reference: string): string {
  return splitReference(reference).name;
}

/** Removes the parts that {@link fullReference} adds: the default registry, `library/` and the tag `latest`. */
export function shortReference(reference: string): string {
  return reference
    .replace(new RegExp(`^${DEFAULT_DOMAIN.replace(".", "\\.")}/(${OFFICIAL_PATH}/)?`), "")
    .replace(/:latest$/, "");
}
