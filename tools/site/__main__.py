from tools.site.build import build

print(build() / "index.html")
