// What the drivers share: the server and the URIs that they are given, and one line for each URI with what came.
export const given = JSON.parse(process.argv[2]);

export async function answer(uri, ways) {
  const found = { uri };
  for (const [way, ask] of Object.entries(ways)) {
    try {
      const value = await ask();
      found[way] = way === "resource" ? { text: value } : describe(value);
    } catch (error) {
      found[way] = { error: String(error.message ?? error) };
    }
  }
  console.log(JSON.stringify(found));
}

function describe(result) {
  const text = result.content?.[0]?.text ?? null;
  return { text, structured: result.structuredContent ?? null, is_error: Boolean(result.isError) };
}

export async function run(all) {
  try {
    await all();
    process.exit(0);
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}
